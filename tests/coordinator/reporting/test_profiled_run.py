"""Whole runs of several processes, recorded: TensorBoard and pstats read what they leave."""

import json
import pathlib
import pstats

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

SHORT = (
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--num_envs_per_worker=8",
    "--local_updates=16",
    "--min_replay_size=200",
    "--eval_period=100000",
    "--eval_episodes=2",
    "--confirm_episodes=0",
    "--target_return=inf",
    "--total_env_steps=3000",
    "--profile=64:256",
    "--profile_python",
)
TASKS = ("coordinator", "ps-0", "worker-0")


def traces(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files that TensorBoard opens, by task."""
    paths = sorted((folder / "tensorboard" / "plugins" / "profile").glob("*/*"))
    assert len({path.parent for path in paths}) == 1
    return {path.name.removesuffix(".xplane.pb"): path for path in paths}


def events(trace: pathlib.Path) -> set[str]:
    """The names of what happened."""
    space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    return {each.name for plane in space.planes for each in plane.event_metadata.values()}


def functions(folder: pathlib.Path, task: str) -> set[str]:
    """The names of a task's Python functions that ran."""
    stats = pstats.Stats(str(folder / "profile" / f"{task}.pstats"))
    return {name for _, _, name in stats.stats}  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def recorded(coordinate_once) -> pathlib.Path:
    folder, ended = coordinate_once("recorded", *SHORT, "--num_workers=1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "(--profile=64:256)" in ended.stdout
    assert f"open with: tensorboard --logdir {folder / 'tensorboard'}" in ended.stdout
    assert f"3 tables are in {folder / 'profile'}" in ended.stdout
    return folder


def test_every_task_leaves_what_tensorboard_opens(recorded: pathlib.Path) -> None:
    found = traces(recorded)
    assert tuple(found) == TASKS
    # By the names of what is hosted there.
    assert {"plan", "steps", "sample", "pack"} <= events(found["worker-0"])
    assert {"pull", "push"} <= events(found["ps-0"])
    assert events(found["coordinator"])


def test_tensorboards_plugin_opens_a_trace(recorded: pathlib.Path) -> None:
    plugin = pytest.importorskip("xprof.convert.raw_to_tool_data")
    trace = str(traces(recorded)["worker-0"])
    content, kind = plugin.xspace_to_tool_data([trace], "trace_viewer", {})
    assert kind == "application/json"
    shown = {event.get("name") for event in json.loads(content)["traceEvents"]}
    assert {"plan", "sample", "pack"} <= shown


def test_every_task_leaves_what_its_python_did(recorded: pathlib.Path) -> None:
    for task in TASKS:
        table = (recorded / "profile" / f"{task}.txt").read_text()
        assert "calls of Python functions took" in table
        assert "ps_dqn/" in table
    assert {"sample", "steps", "pack"} <= functions(recorded, "worker-0")
    assert {"push", "_decide"} <= functions(recorded, "ps-0")
    assert "_on_report" in functions(recorded, "coordinator")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "hosted"),
    [
        pytest.param(
            ("--preset=ape_x", "--num_actors=1"),
            {
                "ps-0": {"push"},
                "replay-0": {"add", "draw", "update"},
                "worker-0": {"weigh"},
                "worker-1": {"hand_over"},
            },
            id="replay servers",
        ),
        pytest.param(
            ("--strategy=all_reduce", "--local_updates=1", "--num_workers=2"),
            {"worker-0": {"sample", "pull", "push"}, "worker-1": {"sample", "pull", "push"}},
            id="replicas",
        ),
        pytest.param(
            ("--preset=seed", "--num_actors=1"),
            {"ps-0": {"push"}, "worker-0": {"sample"}},
            id="actors record nothing",
        ),
    ],
)
def test_tasks_of_other_kinds_of_runs_record(
    coordinate, flags: tuple[str, ...], hosted: dict[str, set[str]]
) -> None:
    folder, ended = coordinate("run", *SHORT, *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = traces(folder)
    assert found.keys() == {"coordinator", *hosted}
    for task, names in hosted.items():
        assert names <= events(found[task]), task
        assert names <= functions(folder, task), task
