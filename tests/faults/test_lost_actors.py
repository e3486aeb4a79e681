"""Actors without a network, and learners that infer for them, killed while a run trains."""

import json
import os
import pathlib
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support import processes as real
from support import remote_tasks
from support.going_on import trains_on, updates
from support.pods import memory_group
from support.pods.memory_group import MemoryGroup
from support.processes import Processes, Running

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import Task
from ps_dqn.run import checkpoints
from ps_dqn.telemetry import memory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
FLAGS = (
    "--topology=seed",
    "--num_envs=8",
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--target_return=inf",
    "--eval_period=600000",
    "--total_env_steps=100000000",
    "--metrics_period=2000",
    "--seed=7",
    "--log_interval=0.2",
)
LITTLE = 40 * 2**20  # bytes


def begun(processes: Processes, folder: pathlib.Path, *flags: str) -> Running:
    running = processes.start("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *FLAGS, *flags)
    running.trains()
    return running


def actors_there(folder: pathlib.Path) -> float:
    """Actors that the learners have told of last."""
    header, *rows = (folder / "metrics.csv").read_text().splitlines()
    place = header.split(",").index("inference/actors")
    known = [row.split(",")[place] for row in rows if row.count(",") == header.count(",")]
    return float(next((each for each in reversed(known) if each), "nan"))


def ended(running: Running, folder: pathlib.Path) -> dict[str, Any]:
    """The summary of a run that is told to end, of which no update was lost."""
    os.kill(running.pid, signal.SIGTERM)
    running.ended(60)
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert summary["updates_lost"] == 0, running.text
    assert summary["recoveries"] == 0, "nobody has to connect anew"
    assert "Traceback" not in running.text
    for log in (folder / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(errors="replace"), log
    return summary


@pytest.mark.parametrize("name", ["actor-1", "worker-0"], ids=["an actor", "a learner"])
def test_the_run_goes_on_and_has_it_again(
    processes: Processes, tmp_path: pathlib.Path, name: str
) -> None:
    running = begun(processes, tmp_path)
    trains_on(running, 1_000)
    log = tmp_path / "logs" / f"{name}.log"
    process = real.until(lambda: processes.writing_to(log), 60, f"{name} to be there")

    os.kill(process, signal.SIGKILL)

    said = f"{name.replace('-', ' ')} was killed by SIGKILL; started again (1 of 5)"
    real.until(lambda: running.count(said), 240, f"{said}:\n{running.text}")
    trains_on(running, updates(running) + 1_000)
    real.until(lambda: actors_there(tmp_path) == 2, 240, f"both actors:\n{running.text}")
    summary = ended(running, tmp_path)
    [failure] = summary["task_failures"]
    assert (failure["task"], failure["recoveries"]) == (name.replace("-", " "), 1)
    processes.all_gone(15)


def test_an_actor_that_stands_still_is_left_out_until_it_moves(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = begun(processes, tmp_path)
    trains_on(running, 500)
    process = processes.writing_to(tmp_path / "logs" / "actor-0.log")

    real.stop(process)

    trains_on(running, updates(running) + 1_000)
    os.kill(process, signal.SIGCONT)
    trains_on(running, updates(running) + 500)
    summary = ended(running, tmp_path)
    # Half of the environments at a time, and all of them.
    assert 4 < summary["workers"]["0"]["inference_batch_size"] < 8
    processes.all_gone(15)


@pytest.fixture
def confined() -> Iterator[Sequence[str]]:
    """What a command comes after that may have `LITTLE` memory; where nobody can say so, nothing.

    Control groups need root.
    """
    if memory_group.unavailable():
        yield ()
        return
    group = MemoryGroup("actor", LITTLE)
    yield group.joining
    group.close()


def test_actors_of_others_have_no_room_for_the_network_and_may_come_back(
    processes: Processes, tmp_path: pathlib.Path, confined: Sequence[str]
) -> None:
    """Remote tasks, by host flags."""
    spec = ports.on_this_machine(1, 1, 0, 1)
    hosts, start = remote_tasks.hosts(spec), remote_tasks.starting(processes, spec)
    within = {"actor": confined}
    tasks = {task: start(task, within.get(task.job, ())) for task in spec.all_tasks()}
    folder = tmp_path / "run"
    words = (f"--run_dir={folder}", *hosts, *FLAGS, "--num_actors=1", "--hidden_sizes=3300,3300")
    few = ("--local_updates=2", "--batch_size=2", "--min_replay_size=50", "--metrics_period=10")
    running = processes.start("-m", "ps_dqn.coordinator", *words, *few)
    running.trains(300)
    actor, learner = (tasks[Task(job, 0)].pid for job in ("actor", "worker"))
    assert memory.of_process(learner) > 300e6
    assert memory.of_process(actor) < LITTLE
    maps = pathlib.Path(f"/proc/{actor}/maps").read_text()
    assert "numpy" in maps
    assert "tensorflow" not in maps

    os.kill(actor, signal.SIGKILL)
    assert tasks[Task("actor", 0)].ended(10) == -signal.SIGKILL
    start(Task("actor", 0), confined)

    trains_on(running, updates(running) + 10)
    ended(running, folder)
    newest = max((folder / "checkpoints").glob("updates-*.npz"))
    assert checkpoints.load(newest).state.online.nbytes > LITTLE
