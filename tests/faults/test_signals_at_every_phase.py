"""SIGTERM, SIGINT and SIGHUP end a run at any moment, with all its processes."""

import json
import os
import pathlib
import re
import signal
import sys
from collections.abc import Callable

import pytest
from support import processes as real
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
CODES = {signal.SIGTERM: 75, signal.SIGINT: 130, signal.SIGHUP: 129}


class Phases:
    """Waits for a run to come to a phase."""

    def __init__(self, processes: Processes, running: Running, folder: pathlib.Path):
        self._processes, self._running = processes, running
        self._logs = folder / "logs"

    def imports(self) -> None:
        self._running.line_with("run directory", 120)

    def forks(self) -> None:
        self._until(lambda: self._processes.writing_to(self._logs / "worker-1.log"))

    def connects(self) -> None:
        self._until(lambda: any(map(real.listens, self._coordinators())))

    def trains(self) -> None:
        self._running.trains()

    def evaluates(self) -> None:
        self._until(lambda: re.search(r"eval +[\d.]+ ", self._running.text))

    def connects_again(self) -> None:
        self.trains()
        os.kill(self._processes.writing_to(self._logs / "ps-0.log"), signal.SIGKILL)
        self._running.line_with("connecting anew", 120)

    def starts_again(self) -> None:
        self.trains()
        [forked] = set(self._coordinators()) - {self._running.pid}
        os.kill(forked, signal.SIGKILL)
        self._running.line_with("the coordinator was killed by SIGKILL; started again", 120)

    def _coordinators(self) -> list[int]:
        """The command, and where another process trains, that one."""
        log = str(self._logs / "coordinator.log")
        return [pid for pid in self._processes.alive() if real.output_of(pid) == log]

    def _until(self, found: Callable[[], object]) -> None:
        real.until(found, 180, f"a phase; there is {self._running.text}")


@pytest.mark.parametrize(
    ("phase", "number", "restarts"),
    [
        (Phases.imports, signal.SIGHUP, False),
        (Phases.forks, signal.SIGINT, False),
        (Phases.connects, signal.SIGTERM, False),
        (Phases.trains, signal.SIGHUP, False),
        (Phases.evaluates, signal.SIGINT, False),
        (Phases.connects_again, signal.SIGTERM, False),
        (Phases.forks, signal.SIGTERM, True),
        (Phases.connects, signal.SIGHUP, True),
        (Phases.trains, signal.SIGINT, True),
        (Phases.starts_again, signal.SIGTERM, True),
    ],
)
def test_a_run_that_is_told_to_end_ends(
    phase: Callable[[Phases], None],
    number: signal.Signals,
    restarts: bool,
    processes: Processes,
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "run"
    flags = (f"--run_dir={folder}", "--restart" if restarts else "--norestart", *ENDLESS)
    running = processes.start("-m", "ps_dqn.coordinator", *flags)
    phase(Phases(processes, running, folder))

    running.process.send_signal(number)

    assert running.ended() == CODES[number], running.text
    assert "Traceback" not in running.text
    assert not re.search("error: .*(mistake|has the whole of it)", running.text), running.text
    processes.all_gone(15)
    trained = phase not in (Phases.imports, Phases.forks, Phases.connects)
    assert bool(list(folder.glob("checkpoints/updates-*.npz"))) >= trained


def test_a_signal_ends_the_final_evaluation(processes: Processes, tmp_path: pathlib.Path) -> None:
    slowly = ("--env_module=slow_cartpole", "--env_id=SlowCartPole-v1", "--eval_episodes=4")
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *ENDLESS, *slowly),
        *("--total_env_steps=3000", "--eval_period=1000000", "--checkpoint_period=100000"),
        '--eval_env_kwargs={"step_seconds": 2}',
        PYTHONPATH=str(BENCHMARKS),
    )
    # It comes before the evaluation, which takes longer than anybody waits.
    real.until(lambda: list(tmp_path.glob("checkpoints/updates-*.npz")), 180, running.text)

    running.process.send_signal(signal.SIGTERM)

    assert running.ended() == CODES[signal.SIGTERM], running.text
    assert running.count("the final evaluation was cut off") == 1, running.text
    assert json.loads((tmp_path / "summary.json").read_text())["reason"] == "stopped"
    processes.all_gone(15)
