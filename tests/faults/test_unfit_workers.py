"""A worker that joins and cannot be used as it was started: it ends, and the others train on."""

import json
import os
import pathlib
import signal
import sys

import pytest
from support.going_on import trains_on, updates
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS, MODULES

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import Task
from ps_dqn.run import signals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
FLAGS = (*ENDLESS, "--replay_files", "--checkpoint_period=1")
ERROR = "error: --replay_files: worker {} has no place for them; start it with --worker_dir"


def test_it_ends_with_its_error_and_is_taken_in_once_it_is_started_as_it_should_be(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    spec = ports.on_this_machine(1, 2)

    def start(job: str, index: int, *flags: str) -> Running:
        place = spec.tf_config(Task(job, index))
        return processes.start("-m", MODULES[job], *flags, TF_CONFIG=place)

    folder = f"--worker_dir={tmp_path / 'workers'}"
    start("ps", 0)
    start("worker", 0, folder)
    running = start("chief", 0, f"--run_dir={tmp_path / 'run'}", "--min_workers=1", *FLAGS)
    running.line_with("workers 1/2", 240)

    unfit = start("worker", 1)
    assert unfit.ended(120) == signals.WRONG_USAGE, unfit.text
    assert unfit.count(ERROR.format(1)) == 1, unfit.text
    assert "Traceback" not in unfit.text
    trains_on(running, updates(running) + 100)

    start("worker", 1, folder)
    running.line_with("workers 2/2", 240)
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["updates_lost"], summary["recoveries"]) == (0, 0)
    assert running.count("error: ") == 0, running.text


def test_the_only_one_ends_the_run(processes: Processes, tmp_path: pathlib.Path) -> None:
    spec = ports.on_this_machine(1, 2)
    for job in ("ps", "worker"):
        processes.start("-m", MODULES[job], TF_CONFIG=spec.tf_config(Task(job, 0)))
    place = spec.tf_config(Task("chief", 0))
    words = ("-m", MODULES["chief"], f"--run_dir={tmp_path}", "--min_workers=1", *FLAGS)
    running = processes.start(*words, TF_CONFIG=place)
    assert running.ended(240) == signals.WRONG_USAGE, running.text
    assert running.count(ERROR.format(0)) == 1, running.text
