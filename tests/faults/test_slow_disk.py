"""A volume that takes its time, as an NFS server does that is started again."""

import os
import pathlib
import signal
import sys

import pytest
from support.processes import Processes

from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.signals import START_AGAIN

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

# A coordinator that is ended after half a second of silence. Once a file says so, each file takes
# longer than that to reach the disk.
PROGRAM = """
import os, pathlib, runpy, sys, time
from ps_dqn.run import signals, stages
fsync, is_slow = os.fsync, pathlib.Path(sys.argv[1])
def slowly(descriptor):
    if is_slow.exists():
        time.sleep(4)
    fsync(descriptor)
os.fsync, signals.SILENT_SECONDS, stages.PATIENCE = slowly, 0.5, 0.2
del sys.argv[1]
runpy.run_module("ps_dqn.coordinator", run_name="__main__", alter_sys=True)
"""


def test_the_last_checkpoint_is_written_though_that_takes_longer_than_a_task_may_be_silent(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    slow, folder = tmp_path / "slow", tmp_path / "run"
    running = processes.start(
        *("-c", PROGRAM, str(slow), f"--run_dir={folder}", "--cluster=in_process"),
        *("--num_workers=1", "--hidden_sizes=16,16", "--jit_compile=none", "--log_interval=0.5"),
        *("--target_return=inf", "--total_env_steps=100000000", "--eval_period=100000000"),
        "--checkpoint_period=100000",
    )
    running.trains()
    slow.touch()
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended() == START_AGAIN, running.text
    running.line_with("writing checkpoints")
    assert running.count("error") == 0, running.text
    newest = Checkpoints(folder / "checkpoints", keep=1).newest()
    assert newest is not None
    assert not list((folder / "checkpoints").glob("*.tmp"))
