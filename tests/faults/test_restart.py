"""`--restart`: a coordinator of local tasks that is killed is started again, and goes on."""

import contextlib
import csv
import json
import os
import pathlib
import signal
import sys
import time

import pytest
from support import processes as real
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS

from ps_dqn.cluster.restarts import RESTARTS_PER_TASK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

FLAGS = (*ENDLESS, "--restart", "--num_workers=2")
KILLED = "was killed by SIGKILL; started again (1 of 5)"


class Restarted:
    """A run, and who trains in it now."""

    def __init__(self, processes: Processes, folder: pathlib.Path, *flags: str):
        self._processes, self._folder = processes, folder
        self.running: Running = processes.start(
            *("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *FLAGS, *flags)
        )
        self.trains()

    def trains(self) -> None:
        """Waits until all workers take part, from now on."""
        self.says("workers 2/2", self.running.count("workers 2/2") + 3)

    def says(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + 300
        while self.running.count(text) < times:
            assert self.running.process.poll() is None, self.running.text
            assert time.monotonic() < deadline, f"not {times} times {text!r}:\n{self.running.text}"
            time.sleep(0.02)

    def coordinator(self) -> int:
        log = str(self._folder / "logs" / "coordinator.log")
        [pid] = {pid for pid in self._processes.alive() if real.output_of(pid) == log} - {
            self.running.pid
        }
        return pid

    def task(self, name: str) -> int:
        return self._processes.writing_to(self._folder / "logs" / f"{name}.log")

    def ends(self) -> dict:
        """Told to end, it does so in good order; its summary."""
        self.running.process.send_signal(signal.SIGTERM)
        assert self.running.ended(60) == 75, self.running.text
        assert self.running.count("error") == 0, self.running.text
        assert "Traceback" not in (self._folder / "logs" / "coordinator.log").read_text()
        self._processes.all_gone(10)
        return json.loads((self._folder / "summary.json").read_text())


def test_a_coordinator_that_is_killed_is_started_again(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    run = Restarted(processes, tmp_path, "--checkpoint_period=100000")
    tasks = [run.task(name) for name in ("ps-0", "worker-0", "worker-1")]

    for times in (1, 2):
        os.kill(run.coordinator(), signal.SIGKILL)
        run.says(f"the coordinator {KILLED}", times)
        run.says("none is missing", times)
        run.trains()
    assert tasks == [run.task(name) for name in ("ps-0", "worker-0", "worker-1")]
    assert not list(tmp_path.glob("checkpoints/updates-*.npz"))

    # The one that has come looks after its tasks as the first one did.
    os.kill(run.task("worker-1"), signal.SIGKILL)
    run.says(f"worker 1 {KILLED}")
    run.trains()
    os.kill(run.task("ps-0"), signal.SIGKILL)
    run.says(f"parameter server 0 {KILLED}; connecting anew")
    run.says("none is missing", 3)
    run.trains()

    summary = run.ends()
    assert summary["recoveries"] == 3, "two coordinators' losses and a parameter server's"
    assert summary["updates_lost"] == 0
    assert 0.0 < summary["goodput"] < 1.0
    failed = {(row["task"], row["kind"], row["recoveries"]) for row in summary["task_failures"]}
    assert ("coordinator 0", "lost", 2) in failed
    assert ("worker 1", "lost", 1) in failed
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # An evaluation's row is of when it began.
    steps = [float(row["env_steps"]) for row in rows if row["train/epsilon"]]
    assert len(steps) > 3
    assert steps == sorted(steps)


def test_one_that_is_killed_with_its_parameter_server_goes_on_from_the_newest_snapshot(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    run = Restarted(processes, tmp_path, "--checkpoint_period=100000")
    for times in (1, 2):
        for pid in (run.coordinator(), run.task("ps-0")):
            os.kill(pid, signal.SIGKILL)
        run.says(f"the coordinator {KILLED}", times)
        run.says(f"parameter server 0 {KILLED}", times)
        run.says("none is missing", times)
        run.trains()
    assert not list(tmp_path.glob("checkpoints/updates-*.npz"))
    assert run.ends()["updates_lost"] == 0


def test_a_worker_that_keeps_ending_does_not_end_the_work_of_others(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    run = Restarted(processes, tmp_path)
    for number in range(RESTARTS_PER_TASK + 1):
        pid = real.until(lambda: run.task("worker-0"), 120, run.running.text)
        os.kill(pid, signal.SIGSTOP)  # before it has done anything
        if number == 1:  # the other one works meanwhile
            run.says("workers 1/2", run.running.count("workers 1/2") + 2)
        os.kill(pid, signal.SIGKILL)
        if number < RESTARTS_PER_TASK:
            run.says(f"worker 0 was killed by SIGKILL; started again ({number + 1} of")
    # It is started again after a while, and keeps ending. A connection that is made meanwhile does
    # without it, however long that takes.
    os.kill(run.task("ps-0"), signal.SIGKILL)

    def begins_without_it() -> bool:
        if pid := run.task("worker-0"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(run.running.count("training begins without worker 0"))

    real.until(begins_without_it, 300, run.running.text)
    run.says("for the 6th time without having worked; others work")
    run.trains()
    run.ends()
    processes.all_gone(10)
