"""SIGTERM ends a run of which a task hangs, though nothing else would end the waiting for it."""

import os
import pathlib
import signal
import sys

import pytest
from support.going_on import evaluated
from support.processes import Processes

from ps_dqn.run.signals import START_AGAIN

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

FLAGS = ("--jit_compile=none", "--eval_episodes=2", "--hidden_sizes=16", "--log_interval=0.5")


@pytest.mark.parametrize(
    ("task", "end"),
    [
        ("worker-1", "Stopped; the same command with --resume goes on from here"),
        ("ps-0", "error: SIGTERM did not end the run: a task does not answer"),
    ],
)
def test_sigterm_ends_a_run_of_which_a_task_hangs(
    processes: Processes, tmp_path: pathlib.Path, task: str, end: str
) -> None:
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *FLAGS),
        *("--target_return=inf", "--total_env_steps=100000000", "--num_workers=2"),
        *("--worker_timeout=inf", "--ps_timeout=inf", "--eval_period=2000", "--confirm_episodes=0"),
    )
    evaluated(running)  # so there is a best network, which is written at the end
    hangs = processes.writing_to(tmp_path / "logs" / f"{task}.log")
    assert hangs
    os.kill(hangs, signal.SIGSTOP)
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(90) == START_AGAIN, running.text
    assert running.count(end) == 1, running.text
    processes.all_gone(10)
