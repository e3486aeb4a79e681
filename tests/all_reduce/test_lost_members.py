"""Workers that add up and die or stand still, in real processes that others start."""

import json
import os
import pathlib
import signal
import sys

import pytest
from support import processes as real
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS, MODULES

from ps_dqn.cluster import ports
from ps_dqn.run import signals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

FLAGS = (*ENDLESS, "--strategy=all_reduce", "--local_updates=1", "--checkpoint_period=1")


def kill(task: Running) -> None:
    os.kill(task.pid, signal.SIGKILL)
    assert task.ended(60) == -signal.SIGKILL


def goes_on(running: Running, workers: str) -> None:
    """Waits for a line that says that so many workers contribute, with more updates than before."""

    def updates() -> int:
        shown = [line for line in list(running.lines) if f"workers {workers}" in line]
        return int(shown[-1].split("updates")[1].split()[0].replace(",", "")) if shown else 0

    before = updates()
    real.until(lambda: updates() > before + 20, 240, f"{workers}:\n{running.text}")


def test_rounds_go_on_without_a_worker_that_dies_and_with_it_once_it_is_back(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    spec = ports.on_this_machine(0, 3)
    hosts = (
        f"--chief_host={spec.chief}",
        f"--worker_hosts={','.join(spec.workers)}",
        "--num_workers=3",
    )

    def start(job: str, *flags: str) -> Running:
        return processes.start("-m", MODULES[job], *hosts, *flags)

    workers = [start("worker", f"--task_index={i}") for i in range(3)]
    running = start("chief", f"--run_dir={tmp_path}", *FLAGS)
    running.trains()
    goes_on(running, "3/3")

    kill(workers[1])
    running.line_with("worker 1 is lost: rounds go on without it until it pushes", 60)
    goes_on(running, "2/3")
    workers[1] = start("worker", "--task_index=1")
    running.line_with("rounds wait for worker 1 again: it pushes", 120)
    goes_on(running, "3/3")

    kill(workers[0])  # from which the coordinator reads
    running.line_with("worker 0 is lost: rounds go on without it until it pushes", 60)
    goes_on(running, "2/3")

    real.stop(workers[2].pid)  # and of the two that are left one stands still
    running.line_with("worker 2 has not answered for", 120)
    goes_on(running, "1/3")
    os.kill(workers[2].pid, signal.SIGCONT)
    running.line_with("rounds wait for worker 2 again: it pushes", 120)
    goes_on(running, "2/3")

    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text
    assert "Traceback" not in running.text
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["reason"], summary["updates_lost"]) == (signals.STOPPED, 0)
    assert summary["recoveries"] == 0, "it never had to connect anew"
    assert 0 < summary["version"] <= summary["updates"] <= 3 * summary["version"]
    # What a closure's report says of its worker may be lost with it; nothing is there twice.
    reported = sum(each["pushes_applied"] for each in summary["workers"].values())
    assert reported <= summary["updates"]


def test_the_last_worker_that_dies_takes_what_came_after_the_snapshot(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    """A local cluster of one worker: it is started again, and goes on from what is in memory."""
    running = processes.start(
        *("-m", MODULES["chief"], f"--run_dir={tmp_path}", "--num_workers=1", *FLAGS)
    )
    running.trains()
    real.until(lambda: list((tmp_path / "checkpoints").glob("updates-*")), 60, "a checkpoint")
    os.kill(processes.writing_to(tmp_path / "logs" / "worker-0.log"), signal.SIGKILL)
    running.line_with("worker 0 was killed by SIGKILL; started again", 60)
    running.line_with("connecting anew", 60)
    running.line_with("goes on at", 120)
    goes_on(running, "1/1")
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["recoveries"] == 1
