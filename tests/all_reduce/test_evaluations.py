"""Evaluations in real runs, of workers that rounds go on without or that are started again."""

import json
import os
import pathlib
import signal
import sys

import numpy as np
import pytest
from support import processes as real
from support.processes import Processes, Running
from support.programs import environment_of_python
from support.remote_tasks import ENDLESS, MODULES

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.run import signals
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

ENVIRONMENT = ("--env_module=support.gated_env", "--env_id=tests/Gated-v0")
FLAGS = (
    *(each for each in ENDLESS if not each.startswith("--eval_")),
    *("--strategy=all_reduce", "--local_updates=1", "--num_workers=2", "--min_replay_size=200"),
    *("--eval_period=2000", "--confirm_episodes=0", "--seed=3"),
)


class Gate:
    """Where evaluations wait."""

    def __init__(self, folder: pathlib.Path):
        folder.mkdir()
        self.path = folder / "gate"
        self.path.touch()

    def waiting(self) -> set[int]:
        """Processes that have come to it."""
        return {int(each.stem) for each in self.path.parent.glob("*.waits")}

    def open(self) -> None:
        self.path.unlink()


def start(processes: Processes, folder: pathlib.Path, gate: Gate, *flags: str) -> Running:
    where = f"--env_kwargs={json.dumps({'gate': str(gate.path)})}"
    arguments = (f"--run_dir={folder}", *FLAGS, *ENVIRONMENT, where, *flags)
    path = environment_of_python()["PYTHONPATH"]
    return processes.start("-m", MODULES["chief"], *arguments, PYTHONPATH=path)


def best_of(folder: pathlib.Path) -> Checkpoint | None:
    return Checkpoints(folder / "checkpoints", keep=1).best()


def initial_network(gate: Gate) -> np.ndarray:
    """What such a run begins with."""
    values = {"env_module": ENVIRONMENT[0].partition("=")[2], "env_id": "tests/Gated-v0"}
    values |= {"env_kwargs": json.dumps({"gate": str(gate.path)}), "hidden_sizes": (16, 16)}
    config = Config.from_values(values)
    environment = environments.describe(config.environment)
    return networks.build(config.network, config.value, environment, 3).initial


def test_the_best_is_what_a_worker_has_played_that_rounds_go_on_without(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    gate = Gate(tmp_path / "gate")
    running = start(processes, tmp_path / "run", gate, "--eval_episodes=1")
    running.line_with("has not pushed for long: rounds go on without it until it does", 240)
    assert len(gate.waiting()) == 1
    assert best_of(tmp_path / "run") is None
    gate.open()
    best = real.until(lambda: best_of(tmp_path / "run"), 120, "the best checkpoint")
    assert best is not None
    assert best.eval_return == 10.0
    assert best.state.counters.version > 0
    moved = np.abs(best.state.average - initial_network(gate)).max()
    assert moved > 0, "nothing has been learned in these"
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text


def test_a_worker_that_is_started_again_may_begin_with_an_evaluation(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    gate = Gate(tmp_path / "gate")
    parts = ("--eval_episodes=40", "--eval_episodes_per_closure=1")
    running = start(processes, tmp_path / "run", gate, *parts)
    real.until(lambda: len(gate.waiting()) == 2, 240, "both workers to evaluate")
    log = tmp_path / "run" / "logs" / "worker-1.log"
    killed = processes.writing_to(log)
    os.kill(killed, signal.SIGKILL)
    # All that both have to do before is played: the next part is its first closure.
    real.until(lambda: len(gate.waiting()) == 3, 240, f"it to evaluate:\n{running.text}")
    assert processes.writing_to(log) in gate.waiting()
    gate.open()
    best = real.until(lambda: best_of(tmp_path / "run"), 240, f"the result:\n{running.text}")
    assert best is not None
    assert best.eval_return == 10.0
    assert best.state.counters.version > 0
    running.line_with("rounds wait for worker 1 again: it pushes", 240)
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text
    assert "Traceback" not in running.text
