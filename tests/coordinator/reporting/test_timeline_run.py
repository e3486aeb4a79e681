"""Whole runs that leave a timeline: of several processes, and of one."""

import csv
import json
import pathlib
from typing import Any

import pytest
from matplotlib import image

FLAGS = (
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--num_envs_per_worker=8",
    "--local_updates=16",
    "--min_replay_size=200",
    "--eval_period=1000",
    "--eval_episodes=2",
    "--confirm_episodes=0",
    "--target_return=inf",
    "--total_env_steps=3000",
)
# What people wait for before the first update, in its order.
START = (
    "starting Python",
    "checking flags",
    "importing all but TensorFlow",
    "importing TensorFlow",
    "starting tasks",
    "connecting to the tasks",
    "building the network",
    "creating the parameters",
    "tracing what workers will run",
    "tracing evaluations",
)
END = ("draining closures", "saving the model", "drawing the learning curve")


class Left:
    """What a run has left."""

    def __init__(self, folder: pathlib.Path):
        content = json.loads((folder / "timeline.json").read_text())
        self.ours = content["ps_dqn"]
        self.tasks = self.ours["tasks"]
        events = content["traceEvents"]
        names = {
            each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"
        }
        self.spans: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for each in events:
            if each["ph"] == "X":
                of_task = self.spans.setdefault(names[each["pid"]], {})
                ended = each["ts"] + each["dur"]
                of_task.setdefault(each["name"], []).append((each["ts"] / 1e6, ended / 1e6))
        self.picture = image.imread(folder / "timeline.png")
        with (folder / "metrics.csv").open(newline="") as file:
            self.evaluations = sum(bool(row["eval/episode_return"]) for row in csv.DictReader(file))

    def first(self, task: str, name: str) -> float:
        return self.spans[task][name][0][0]


def check(left: Left, workers: list[str], servers: list[str]) -> None:
    """What is so of every run to its end."""
    assert list(left.tasks) == ["coordinator", *servers, *workers]
    assert not any(each["note"] for each in left.tasks.values())
    total = left.ours["total_seconds"]
    phases: list[dict[str, Any]] = left.ours["phases"]
    assert sum(each["seconds"] for each in phases) == pytest.approx(total, abs=1e-4)
    assert all(each["seconds"] > 0 for each in phases[:3])
    places = [left.first("coordinator", name) for name in START]
    assert places == sorted(places)
    known = left.tasks["coordinator"]["instants"]
    assert places[-1] >= known["first closure scheduled"]
    assert all(left.first("coordinator", name) >= known["end of training"] for name in END)
    # How many there are is the workers' pace: none begins while another one is played.
    assert len(left.spans["coordinator"]["evaluating"]) == left.evaluations > 0
    by_worker = (len(left.spans[worker].get("evaluating", ())) for worker in workers)
    assert sum(by_worker) == left.evaluations
    for worker in workers:
        instants = left.tasks[worker]["instants"]
        assert known["first closure scheduled"] < instants["first env step"]
        assert instants["first env step"] < instants["first update"] < total
        built = left.first(worker, "building environments")
        compiled = left.first(worker, "compiling and making the first updates")
        assert built < left.first(worker, "collecting") < compiled
        assert {"sampling", "pulling", "pushing", "learning"} <= left.spans[worker].keys()
    for server in servers:
        assert {"creating the parameters", "applying a push"} <= left.spans[server].keys()
    assert left.picture.shape[1] > 1000


def test_a_run_of_several_processes_leaves_one(coordinate) -> None:
    folder, ended = coordinate("timed", *FLAGS, "--timeline", "--num_workers=1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    left = Left(folder)
    check(left, ["worker-0"], ["ps-0"])
    assert len({each["pid"] for each in left.tasks.values()}) == 3
    # They are processes of one machine, so of one clock, and began where the coordinator made them.
    assert {each["clock_offset_seconds"] for each in left.tasks.values()} == {0.0}
    [(forked, _)] = left.spans["coordinator"]["starting tasks"]
    connecting = left.first("coordinator", "connecting to the tasks")
    for task in ("worker-0", "ps-0"):
        assert left.tasks[task]["process_began"] >= forked - 0.02
        assert left.first(task, "starting its server") < connecting
    assert "From the command to the result" in ended.stdout
    assert "opens at https://ui.perfetto.dev" in ended.stdout


@pytest.mark.slow
def test_a_run_of_one_process_leaves_a_row_for_each_task(coordinate) -> None:
    flags = (*FLAGS, "--timeline", "--cluster=in_process", "--num_workers=2", "--num_ps=2")
    folder, ended = coordinate("together", *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    left = Left(folder)
    check(left, ["worker-0", "worker-1"], ["ps-0", "ps-1"])
    assert len({each["pid"] for each in left.tasks.values()}) == 1


def test_a_run_without_the_flag_leaves_none(coordinate) -> None:
    folder, ended = coordinate("untimed", *FLAGS, "--num_workers=1", "--total_env_steps=1000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not list(folder.glob("timeline*"))
    assert "From the command" not in ended.stdout
