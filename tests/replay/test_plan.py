"""Which replay a configuration asks for, how large it becomes, and what is refused."""

import pathlib
from typing import Any

import numpy as np
import pytest

from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.spec import Placement
from ps_dqn.config import Config
from ps_dqn.config.capacity import Item
from ps_dqn.coordinator import start
from ps_dqn.coordinator.process import Command
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import budget
from ps_dqn.replay.plan import Plan, make_sampler, plan_replay
from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.samplers import Recent, Uniform

IMAGE = EnvironmentSpec((4, 20, 20), np.dtype(np.uint8), 3, None)
VECTOR = EnvironmentSpec((4,), np.dtype(np.float32), 2, None)
MASKED = EnvironmentSpec((4,), np.dtype(np.float32), 9, None, has_masks=True)
ENVS = 16


def plan(environment: EnvironmentSpec = VECTOR, **values: Any) -> Plan:
    config = Config.from_values({"num_envs_per_worker": ENVS, **values})
    return plan_replay(config, environment)


def refused(environment: EnvironmentSpec = VECTOR, **values: Any) -> str:
    with pytest.raises(UsageError) as caught:
        plan(environment, **values)
    return str(caught.value)


def test_the_layout_is_what_the_options_say() -> None:
    made = plan(IMAGE, n_step=3, gamma=0.9, frame_stack=4, replay_capacity=8000).layout
    assert (made.num_envs, made.rows) == (ENVS, 500)
    assert (made.observation_shape, made.observation_dtype) == ((4, 20, 20), np.uint8)
    assert (made.gamma, made.frame_stack, made.compression) == (0.9, 4, "none")
    assert (made.item, made.state_size) == (Item(n_step=3), 0)


def test_recurrent_networks_have_sequences_and_states() -> None:
    steps = {"burn_in": 3, "sequence_length": 7, "sequence_period": 5}
    made = plan(recurrent_size=6, n_step=2, **steps).layout
    assert made.item == Item(n_step=2, burn_in=3, sequence_length=7, period=5)
    assert made.item.span == 3 + 7 + 2
    assert made.state_size == 14


@pytest.mark.parametrize(
    ("options", "rows"),
    [({}, 50_000 / ENVS), ({"replay_capacity": 8000}, 500), ({"replay_capacity": 8001}, 501)],
    ids=str,
)
def test_a_capacity_is_shared_among_the_environments(options: dict[str, int], rows: int) -> None:
    made = plan(**options)
    assert made.layout.rows == rows
    assert made.capacity == ENVS * rows


MEMORY = {"replay_memory": "1MB", "min_replay_size": 100}


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        (VECTOR, {}),
        (VECTOR, {"replay": "prioritized"}),
        (VECTOR, {"recurrent_size": 8}),
        (VECTOR, {"replay": "prioritized", "recurrent_size": 8}),
        (IMAGE, {}),
        (IMAGE, {"frame_stack": 4}),
        (MASKED, {}),
    ],
    ids=str,
)
def test_a_memory_holds_as_much_as_fits(
    environment: EnvironmentSpec, options: dict[str, Any]
) -> None:
    made = plan(environment, **MEMORY, **options)
    config = Config.from_values({"num_envs_per_worker": ENVS, **MEMORY, **options})
    replay = Replay(made.layout, make_sampler(config), np.random.default_rng(0))
    assert replay.nbytes == made.nbytes
    # A tree of priorities has a power of two of leaves.
    least = 500_000 if "replay" in options else 970_000
    assert least < made.nbytes <= 1_000_000
    replay.close()


def test_frames_take_a_share_of_the_memory_that_stacks_take() -> None:
    whole, frames = plan(IMAGE, **MEMORY), plan(IMAGE, frame_stack=4, **MEMORY)
    # 1600 or 400 bytes, 10 for the rest; and 3 frames for each environment.
    assert whole.capacity == 1_000_000 // (ENVS * 1610) * ENVS
    assert frames.capacity == (1_000_000 - 3 * 400 * ENVS) // (ENVS * 410) * ENVS


def test_compression_has_a_memory_for_what_frames_become() -> None:
    plain = plan(IMAGE, frame_stack=4, **MEMORY)
    packed = plan(IMAGE, frame_stack=4, replay_compression="lz4", **MEMORY)
    assert packed.nbytes == 1_000_000
    assert packed.layout.compression == "lz4"
    assert packed.capacity > 5 * plain.capacity
    assert plain.layout.arena_bytes == 0
    assert 400_000 < packed.layout.arena_bytes < 1_000_000
    assert "up to " in packed.describe()
    assert packed.describe().endswith("frames compressed by lz4")


def test_the_smaller_of_capacity_and_memory_counts() -> None:
    alone = plan(**MEMORY).capacity
    for capacity, expected in ((alone - ENVS, alone - ENVS), (alone + ENVS, alone)):
        assert plan(replay_capacity=capacity, **MEMORY).capacity == expected


def test_people_are_told_what_it_takes() -> None:
    made = plan(replay_capacity=8000)
    assert made.describe() == (
        f"each worker's replay: 8,000 transitions in {budget.show(made.nbytes)}"
    )


def test_a_memory_that_is_too_small_to_learn_from() -> None:
    # 16 bytes an observation and 10 for the rest: 2 rows of each of 16 environments.
    assert refused(replay_memory="900", min_replay_size=1) == (
        "--replay_memory=900 (32 transitions): 16 environments with --n_step=5 need 112 or more"
    )
    assert refused(replay_memory="20kB") == (
        "--min_replay_size=1000: must not exceed --replay_memory=20kB (768 transitions)"
    )
    assert refused(replay_memory="27kB") == (
        "--min_replay_size=1000: 16 environments with --replay_memory=27kB (1,024 transitions) and "
        "--n_step=5 offer 944 at most"
    )


def test_a_size_that_is_none() -> None:
    assert refused(replay_memory="2 apples").startswith("--replay_memory=2 apples: not a size")


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_compression_of_what_are_no_bytes(dtype: str) -> None:
    numbers = EnvironmentSpec((20, 20), np.dtype(dtype), 3, None)
    assert refused(numbers, replay_compression="lz4", **MEMORY) == (
        f"--replay_compression=lz4: is for images of bytes, and observations here are {dtype}; "
        f"leave it out"
    )


def test_replay_that_the_machine_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = budget.Limit(3 * 1024**2, "of the machine")
    monkeypatch.setattr(budget, "available", lambda: machine)
    made = plan(replay_memory="1MiB", min_replay_size=100)
    size = budget.show(made.nbytes)
    assert made.nbytes > 0.9 * 1024**2
    made.check_memory(3)
    with pytest.raises(UsageError) as caught:
        made.check_memory(4)
    assert str(caught.value) == (
        f"--replay_memory=1MiB: 4 workers' replays of {size} cannot fit into the 3.0 MiB of the "
        f"machine: make it less"
    )
    with pytest.raises(
        UsageError, match=r"^--replay_capacity=1000000: the replay of 24\.8 MiB cannot"
    ):
        plan(replay_capacity=10**6).check_memory(1)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, Uniform),
        ({"replay": "uniform"}, Uniform),
        ({"replay": "prioritized"}, Prioritized),
        ({"replay": "recent"}, Recent),
    ],
    ids=str,
)
def test_the_sampler_is_the_one_that_is_named(options: dict[str, str], kind: type) -> None:
    assert type(make_sampler(Config.from_values(options))) is kind


def test_the_least_window_of_recent_steps_counts_steps_of_sequences_too() -> None:
    options = {"replay": "recent", "recency_min_size": 1001, "num_envs_per_worker": 1}
    sequences = {"recurrent_size": 4, "sequence_period": 10}
    for values, expected in (({}, 1001), (sequences, 101)):
        sampler = make_sampler(Config.from_values({**options, **values}))
        assert isinstance(sampler, Recent)
        assert sampler.min_size == expected


def test_compressed_frames_that_do_not_shrink_must_leave_enough_to_learn_from() -> None:
    # A worker would wait for ever for a replay that never becomes warm.
    said = refused(
        IMAGE,
        frame_stack=4,
        replay_compression="lz4",
        replay_memory="400kB",
        min_replay_size=900,
    )
    assert said.startswith("--min_replay_size=900: must not exceed --replay_memory=400kB (at least")


def test_a_capacity_limits_compressed_frames_too() -> None:
    options = {"frame_stack": 4, "replay_compression": "lz4", "replay_memory": "64GiB"}
    made = plan(IMAGE, replay_capacity=8000, **options)
    # 400 bytes a frame, a little more where it cannot be compressed; and the tables.
    assert made.capacity == 8000
    assert 8000 * 400 < made.layout.arena_bytes < 8000 * 500
    assert made.layout.arena_bytes < made.nbytes < 8000 * 550


def test_files_of_another_environment_are_another_replay() -> None:
    options = [
        {"env_id": "A-v0"},
        {"env_id": "B-v0"},
        {"env_id": "A-v0", "env_kwargs": '{"size": 2}'},
        {"env_id": "A-v0", "env_wrappers": "mine:Wrapper"},
        {"env_id": "A-v0", "reward_clip": 1.0},
        {"env_id": "A-v0", "reward_clip": 2.0},
    ]
    assert len({plan(**each).layout.source for each in options}) == len(options)


def test_files_of_the_same_environment_are_the_same_replay() -> None:
    texts = ['{"b": [1, 2], "size": 2}', '{"size":2,  "b":[1,2]}']
    sources = [plan(env_id="A-v0", env_kwargs=text).layout.source for text in texts]
    # As it was written before wrappers and clips were among it, so that such files are still used.
    assert sources == ['A-v0 {"b": [1, 2], "size": 2}'] * 2
    assert plan(env_id="A-v0").layout.source == "A-v0 {}"


# Shares of what a worker may use.


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine, or a container, of a gigabyte."""
    memory = budget.Limit(2**30, "of the container's limit")
    monkeypatch.setattr(budget, "available", lambda: memory)


def test_a_worker_takes_its_share_of_what_it_may_use(room: None) -> None:
    share = plan(replay_memory="25%")
    assert share.layout == plan(replay_memory=str(2**28)).layout
    assert share.nbytes == pytest.approx(2**28, rel=0.01)
    assert share.flag == "--replay_memory=25%"


@pytest.mark.parametrize(
    ("kind", "found", "says"),
    [
        # Two workers share this machine: each has half of its 25 %.
        ("local", str(2**27), "transitions in 128.0 MiB"),
        ("remote", "25%", "each worker's replay: 25% of its memory"),
    ],
)
def test_who_works_out_a_share(
    room: None, tmp_path: pathlib.Path, kind: str, found: str, says: str
) -> None:
    config = Config.from_values({"replay_memory": "25%"})
    placement = Placement(kind, on_this_machine(1, 2), "fork", 1, 2)
    command = Command(config, placement, tmp_path, "", 0.0)

    planned, [line] = start.plan_replay(command, VECTOR)

    assert planned.replay.replay_memory == found
    assert says in line
