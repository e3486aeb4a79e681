"""Processes that crash in C++: their logs say where Python was."""

import os
import pathlib
import signal
import sys

import pytest
from support.processes import Processes
from support.remote_tasks import ENDLESS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def test_a_crash_leaves_the_stacks_of_all_threads(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    logs = tmp_path / "logs"
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", "--num_workers=2", *ENDLESS)
    )
    running.line_with("workers 2/2", 120)
    os.kill(processes.writing_to(logs / "worker-1.log"), signal.SIGSEGV)
    running.line_with("worker 1 was killed by SIGSEGV; started again", 60)
    os.kill(running.pid, signal.SIGSEGV)
    assert running.ended(60) == -signal.SIGSEGV, running.text
    processes.all_gone(10)
    for name, where in (("worker-1", "cluster/server.py"), ("coordinator", "loop.py")):
        log = (logs / f"{name}.log").read_text()
        assert "Fatal Python error: Segmentation fault" in log
        assert where in log, log
