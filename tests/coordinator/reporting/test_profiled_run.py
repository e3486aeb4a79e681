"""A whole run of several processes, recorded: TensorBoard and pstats read what it leaves."""

import pathlib
import pstats

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

FLAGS = (
    "--num_workers=1",
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
)
TASKS = ("coordinator", "ps-0", "worker-0")


@pytest.fixture(scope="module")
def recorded(coordinate_once) -> pathlib.Path:
    folder, ended = coordinate_once("recorded", *FLAGS, "--profile=64:256", "--profile_python")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "(--profile=64:256)" in ended.stdout
    assert f"open with: tensorboard --logdir {folder / 'tensorboard'}" in ended.stdout
    assert f"3 tables are in {folder / 'profile'}" in ended.stdout
    return folder


def test_every_task_leaves_what_tensorboard_opens(recorded: pathlib.Path) -> None:
    paths = sorted((recorded / "tensorboard" / "plugins" / "profile").glob("*/*"))
    assert [path.name for path in paths] == [f"{task}.xplane.pb" for task in TASKS]
    assert len({path.parent for path in paths}) == 1
    names = {}
    for path in paths:
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        planes = [each for plane in space.planes for each in plane.event_metadata.values()]
        names[path.name.removesuffix(".xplane.pb")] = {each.name for each in planes}
    # By the names of what is hosted there.
    assert {"plan", "steps", "sample", "pack"} <= names["worker-0"]
    assert {"pull", "push"} <= names["ps-0"]
    assert names["coordinator"]


def test_every_task_leaves_what_its_python_did(recorded: pathlib.Path) -> None:
    functions = {}
    for task in TASKS:
        stats = pstats.Stats(str(recorded / "profile" / f"{task}.pstats"))
        functions[task] = {name for _, _, name in stats.stats}  # type: ignore[attr-defined]
        table = (recorded / "profile" / f"{task}.txt").read_text()
        assert "calls of Python functions took" in table
        assert "ps_dqn/" in table
    assert {"sample", "steps", "pack"} <= functions["worker-0"]
    assert {"push", "_decide"} <= functions["ps-0"]
    assert "_on_report" in functions["coordinator"]
