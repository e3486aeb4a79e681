"""Fleets of which workers are missing, come late and go: training goes on with those there are."""

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
from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.run import signals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

FLAGS = (*ENDLESS, "--checkpoint_period=1")


class Fleet:
    """Remote tasks, which are started one by one."""

    def __init__(self, processes: Processes, num_workers: int):
        self._processes = processes
        self.spec: ClusterSpec = ports.on_this_machine(1, num_workers)
        self.ps = self.start("ps", 0)

    def start(self, job: str, index: int, *flags: str) -> Running:
        place = self.spec.tf_config(Task(job, index))
        return self._processes.start("-m", MODULES[job], *flags, TF_CONFIG=place)

    def workers(self, *indices: int) -> dict[int, Running]:
        return {index: self.start("worker", index) for index in indices}


def reporting(running: Running, count: int) -> None:
    """Waits until so many workers contribute."""
    text = f"{count}/6"
    heard = running.count(text)
    real.until(lambda: running.count(text) > heard + 1, 180, f"{text}:\n{running.text}")


def kill(task: Running) -> None:
    os.kill(task.pid, signal.SIGKILL)
    assert task.ended(10) == -signal.SIGKILL


def test_two_workers_begin_four_more_come_three_leave_and_one_of_those_left_is_started_again(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    fleet = Fleet(processes, 6)
    workers = fleet.workers(1, 4)
    running = fleet.start("chief", 0, f"--run_dir={tmp_path}", "--min_workers=2", *FLAGS)
    running.line_with("training begins without workers 0, 2, 3 and 5", 120)
    reporting(running, 2)

    workers |= fleet.workers(0, 2, 3, 5)
    reporting(running, 6)

    for index in (0, 1, 2):
        kill(workers[index])
    reporting(running, 3)
    # Nobody waits for those that have left.
    kill(workers[4])
    workers |= fleet.workers(4)
    reporting(running, 2)
    reporting(running, 3)
    # Nor does a run that loses its parameter server.
    kill(fleet.ps)
    fleet.start("ps", 0)
    running.line_with("none is missing", 120)
    reporting(running, 3)

    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["reason"], summary["updates_lost"]) == (signals.STOPPED, 0)
    assert (summary["recoveries"], running.count("connecting anew")) == (1, 1), running.text
    # Those that were only late have not failed.
    failed = {row["task"] for row in summary["task_failures"]}
    assert failed == {"worker 0", "worker 1", "worker 2", "worker 4", "parameter server 0"}
    assert "Traceback" not in running.text


def test_without_the_option_all_are_waited_for_and_people_are_told_of_it(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    fleet = Fleet(processes, 2)
    fleet.workers(1)
    running = fleet.start("chief", 0, f"--run_dir={tmp_path}", *FLAGS)
    waiting = running.line_with("waiting for worker 0 at ", 60)
    assert waiting.endswith("(--min_workers=1 would begin without)")
    assert not running.count("updates/s")

    fleet.workers(0)
    running.trains()
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text
