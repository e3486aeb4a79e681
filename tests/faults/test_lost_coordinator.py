"""A coordinator that is killed: another one goes on from what servers and workers hold."""

import os
import pathlib
import re
import signal
import sys

import pytest
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import Task

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

FLAGS = (*ENDLESS, "--checkpoint_period=100000")  # there is none to go on from


def counted(line: str) -> tuple[int, int]:
    """Environment steps and updates that a line speaks of."""
    found = re.search(r"at ([\d,]+) env steps, ([\d,]+) updates", line)
    assert found, line
    steps, updates = (int(each.replace(",", "")) for each in found.groups())
    return steps, updates


def shown(running: Running) -> int:
    """The environment steps that a run has shown last."""
    found = re.findall(r"env_steps +([\d,]+)", running.text)
    return int(found[-1].replace(",", ""))


def test_another_one_goes_on_without_a_checkpoint(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    spec = ports.on_this_machine(2, 2)

    def start(module: str, job: str, index: int, *flags: str) -> Running:
        place = spec.tf_config(Task(job, index))
        return processes.start("-m", f"ps_dqn.{module}", *flags, TF_CONFIG=place)

    tasks = [
        start(module, job, i)
        for module, job in (("parameter_server", "ps"), ("worker", "worker"))
        for i in range(2)
    ]
    before = 0
    for _ in range(3):
        running = start("coordinator", "chief", 0, f"--run_dir={tmp_path}", *FLAGS)
        if before:
            line = running.line_with("goes on at ", 120)
            assert line.endswith("none is missing")
            steps, updates = counted(line)
            # More than it has shown: what came after that is there too.
            assert steps >= before
            assert updates > 0
        running.trains()
        running.line_with("workers 2/2", 120)
        before = shown(running)
        os.kill(running.pid, signal.SIGKILL)
        assert running.ended(30) == -signal.SIGKILL
        assert not list(tmp_path.glob("checkpoints/updates-*.npz"))
    assert before > 0
    assert all(task.process.poll() is None for task in tasks)
    assert not any("Traceback" in task.text for task in tasks)
