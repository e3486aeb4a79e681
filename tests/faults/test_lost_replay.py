"""Replay servers, actors and learners that are killed while a run trains, each noticed and said."""

import json
import os
import pathlib
import re
import signal
import sys
from typing import Any

import pytest
from support import processes as real
from support.going_on import trains_on, updates
from support.processes import Processes, Running
from support.remote_tasks import MODULES
from support.tiers import tiered

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import Task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
FLAGS = (
    "--topology=apex",
    "--replay=prioritized",
    "--num_replay_servers=2",
    "--num_envs=8",
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--target_return=inf",
    "--eval_period=600000",
    "--total_env_steps=1000000",
    "--seed=7",
    "--log_interval=0.2",
)


def begun(processes: Processes, folder: pathlib.Path, *flags: str) -> Running:
    running = processes.start("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *FLAGS, *flags)
    running.trains()
    return running


def kill(processes: Processes, folder: pathlib.Path, name: str) -> None:
    process = real.until(
        lambda: processes.writing_to(folder / "logs" / f"{name}.log"), 60, f"{name} to be there"
    )
    os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize(
    "keeps", tiered([False, True], slow=(True,)), ids=["empty", "with its files"]
)
def test_a_replay_server_comes_back(
    processes: Processes, tmp_path: pathlib.Path, keeps: bool
) -> None:
    running = begun(processes, tmp_path, f"--replay_files={keeps}")
    trains_on(running, 1_000)

    kill(processes, tmp_path, "replay-1")

    said = "replay server 1 was killed by SIGKILL"
    real.until(lambda: running.count(said), 240, f"{said}:\n{running.text}")
    real.until(lambda: running.count("replay servers have"), 240, running.text)
    [held] = re.findall(r"replay servers have ([\d,]+) rows", running.text)
    [steps] = re.findall(r"goes on at ([\d,]+) env steps", running.text)
    # Each server has half of what was collected, rows that only end episodes included.
    share = int(held.replace(",", "")) / int(steps.replace(",", ""))
    assert 0.9 < share < 1.15 if keeps else 0.4 < share < 0.6, running.text
    # By more than pushes that were under way: for that, both servers have enough again.
    trains_on(running, updates(running) + 256)
    summary = ended(running, tmp_path)
    assert [each["rows"] > 0 for each in summary["replay_servers"]] == [True, True]
    assert "Traceback" not in (tmp_path / "logs" / "replay-1.log").read_text()
    processes.all_gone(15)


@pytest.mark.parametrize(
    "name", tiered(["worker-0", "worker-1"], slow=("worker-1",)), ids=["a learner", "an actor"]
)
def test_the_run_goes_on_without_a_worker_until_it_is_back(
    processes: Processes, tmp_path: pathlib.Path, name: str
) -> None:
    running = begun(processes, tmp_path)
    trains_on(running, 1_000)

    kill(processes, tmp_path, name)

    said = f"{name.replace('-', ' ')} was killed by SIGKILL; started again"
    real.until(lambda: running.count(said), 240, f"{said}:\n{running.text}")
    heard = running.count("workers 3/3")
    real.until(lambda: running.count("workers 3/3") > heard, 240, running.text)
    trains_on(running, updates(running))
    summary = ended(running, tmp_path)
    assert summary["recoveries"] == 0, "nobody has to connect anew"
    assert {row["task"] for row in summary["task_failures"]} == {name.replace("-", " ")}
    processes.all_gone(15)


@pytest.mark.thorough
def test_one_that_others_start_is_waited_for(processes: Processes, tmp_path: pathlib.Path) -> None:
    """Remote tasks, by host flags; the server comes back with its files at its address."""
    spec = ports.on_this_machine(1, 3, 1)
    hosts = (
        f"--chief_host={spec.chief}",
        *(f"--ps_hosts={spec.ps[0]}", f"--worker_hosts={','.join(spec.workers)}"),
        f"--replay_hosts={spec.replay[0]}",
    )

    def start(task: Task) -> Running:
        folder = () if task.job == "ps" else (f"--worker_dir={tmp_path / str(task)}",)
        words = (f"--task_index={task.index}", *hosts, *folder)
        return processes.start("-m", MODULES[task.job], *words)

    tasks = {task: start(task) for task in spec.tasks()}
    flags = [flag for flag in FLAGS if not flag.startswith("--num_replay")]
    words = (f"--run_dir={tmp_path / 'run'}", "--replay_files", *hosts, *flags)
    running = processes.start("-m", "ps_dqn.coordinator", *words)
    running.trains()
    trains_on(running, 1_000)
    lost = tasks[Task("replay", 0)]

    os.kill(lost.pid, signal.SIGKILL)

    assert lost.ended(10) == -signal.SIGKILL
    running.line_with("waiting for replay server 0", 120)
    start(Task("replay", 0))
    real.until(lambda: running.count("replay servers have"), 240, running.text)
    [held] = re.findall(r"replay servers have ([\d,]+) rows", running.text)
    [steps] = re.findall(r"goes on at ([\d,]+) env steps", running.text)
    assert int(held.replace(",", "")) > 0.9 * int(steps.replace(",", "")), running.text
    trains_on(running, updates(running))
    ended(running, tmp_path / "run")


def ended(running: Running, folder: pathlib.Path) -> dict[str, Any]:
    """The summary of a run that is told to end, of which no update was lost."""
    os.kill(running.pid, signal.SIGTERM)
    running.ended(60)
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert summary["updates_lost"] == 0, running.text
    assert "Traceback" not in running.text
    return summary
