"""Timelines of runs of other kinds of tasks, and of tasks on machines with another clock."""

import json
import pathlib
import subprocess
from typing import Any

import pytest
from support.processes import Processes
from support.remote_tasks import MODULES

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import Task

FLAGS = (
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--num_envs_per_worker=8",
    "--min_replay_size=200",
    "--eval_period=1000",
    "--eval_episodes=2",
    "--confirm_episodes=0",
    "--target_return=inf",
    "--total_env_steps=3000",
    "--timeline",
)
APEX = ("--topology=apex", "--replay=prioritized", "--num_actors=2", "--num_learners=1")
SEED = ("--topology=seed", "--num_actors=2", "--num_learners=1")
ALL_REDUCE = ("--strategy=all_reduce", "--local_updates=1", "--num_workers=2")
# Seconds by which the clock of another machine is ahead.
AHEAD = 1000


def left(folder: pathlib.Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "timeline.json").read_text())["ps_dqn"]
    seconds = sum(each["seconds"] for each in content["phases"])
    assert seconds == pytest.approx(content["total_seconds"], abs=1e-4)
    assert (folder / "timeline.png").exists()
    tasks: dict[str, Any] = content["tasks"]
    return tasks


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(
            APEX,
            {
                "replay-0": "taking what actors have collected",
                "worker-0": "learning (beside)",
                "worker-1": "adding to the replay",
                "ps-0": "applying a push",
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            SEED,
            {"worker-0": "learning (beside)", "actor-1": "stepping environments"},
            marks=pytest.mark.thorough,
        ),
        pytest.param(ALL_REDUCE, {"worker-1": "forming a group"}, marks=pytest.mark.thorough),
        pytest.param(
            ("--restart", "--num_workers=1"),
            {"worker-0": "learning (beside)"},
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            ("--start_method=spawn", "--num_workers=1"),
            {"worker-0": "importing what it hosts"},
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["apex", "seed", "all_reduce", "restart", "spawn"],
)
def test_every_kind_of_run_has_rows_of_its_tasks(
    coordinate, flags: tuple[str, ...], expected: dict[str, str]
) -> None:
    folder, ended = coordinate("run", *FLAGS, *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    tasks = left(folder)
    assert not any(each["note"] for each in tasks.values())
    for task, span in expected.items():
        assert tasks[task]["totals"][span]["seconds"] > 0, (task, tasks[task]["totals"].keys())


def has_other_clocks() -> bool:
    """Whether this machine has namespaces of clocks, and this user may make one."""
    wanted = ["unshare", "--time", "--monotonic", "1", "true"]
    try:
        return subprocess.run(wanted, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not has_other_clocks(), reason="no namespace of clocks can be made here")
def test_a_worker_of_another_clock_is_in_its_place(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    spec = ports.on_this_machine(1, 1)
    clocks = ["unshare", "--time", "--monotonic", str(AHEAD), "--boottime", str(AHEAD)]
    for job, within in (("ps", []), ("worker", clocks)):
        place = spec.tf_config(Task(job, 0))
        processes.start("-m", MODULES[job], within=within, TF_CONFIG=place)
    place = spec.tf_config(Task("chief", 0))
    coordinator = processes.start(
        "-m", MODULES["chief"], *FLAGS, f"--run_dir={tmp_path}", TF_CONFIG=place
    )
    assert coordinator.process.wait(240) == 0, coordinator.text
    tasks = left(tmp_path)
    worker, server = tasks["worker-0"], tasks["ps-0"]
    assert worker["clock_offset_seconds"] == pytest.approx(-AHEAD, abs=1)
    assert 0 < worker["clock_within_seconds"] < 1
    assert server["clock_offset_seconds"] == 0
    # What it did is between what the coordinator did before and after.
    known, within = tasks["coordinator"]["instants"], worker["clock_within_seconds"]
    instants = worker["instants"]
    assert known["first closure scheduled"] - within < instants["first env step"]
    assert instants["first env step"] < instants["first update"]
    assert instants["first update"] < known["first report of an update"] + within
    # It was there before the command came, or soon after.
    assert -120 < worker["process_began"] < known["first closure scheduled"]
