"""Another number of workers: what a coordinator is told counts, and the other tasks run on.

So `python -m ps_dqn.launch resize` has the coordinator start again, and nobody else.
"""

import os
import pathlib
import re
import signal
import sys
import urllib.request

import portpicker
import pytest
from support import processes as real
from support.processes import Processes, Running
from support.remote_tasks import MODULES

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.run import signals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

ENDLESS = (
    "--total_env_steps=100000000",
    "--target_return=inf",
    "--log_interval=0.5",
    "--checkpoint_period=0.5",
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--local_updates=16",
    "--eval_episodes=2",
)


def start(processes: Processes, spec: ClusterSpec, task: Task, *flags: str) -> Running:
    return processes.start("-m", MODULES[task.job], *flags, TF_CONFIG=spec.tf_config(task))


def test_workers_are_added_and_taken_away_while_the_others_run_on(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    three = ports.on_this_machine(1, 3)
    one = ClusterSpec(three.chief, three.ps, three.workers[:1])
    health = portpicker.pick_unused_port()
    flags = [*ENDLESS, f"--run_dir={tmp_path}", f"--health_port={health}"]

    def reporting() -> int:
        with urllib.request.urlopen(f"http://localhost:{health}/metrics", timeout=20) as answer:
            page = answer.read().decode()
        return int(float(re.findall(r"^ps_dqn_workers_reporting (\S+)$", page, re.MULTILINE)[0]))

    others = [start(processes, one, Task(job, 0)) for job in ("ps", "worker")]
    # Those that are there were told of one worker, and are told nothing else.
    for number, (spec, workers) in enumerate([(one, 1), (three, 3), (one, 1)]):
        if spec is three:
            others += [start(processes, three, Task("worker", i)) for i in (1, 2)]
        coordinator = start(processes, spec, Task("chief", 0), *flags)
        coordinator.trains()
        real.until(lambda n=workers: reporting() == n, 120, f"{workers} workers to work")
        if number:
            assert re.search(r"^(resumed|goes on) at ", coordinator.text, re.MULTILINE)
            assert "are lost" not in coordinator.text
        real.until(lambda: list(tmp_path.glob("checkpoints/updates-*.npz")), 60, "a checkpoint")
        os.kill(coordinator.pid, signal.SIGTERM)
        assert coordinator.ended() == signals.START_AGAIN, coordinator.text
        assert all(other.process.poll() is None for other in others)
