"""An environment's own vector form stays, unless single environments are the same."""

import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.counting_env import COUNTING

from ps_dqn import environments
from ps_dqn.config import Environment
from ps_dqn.environments import Environments, rendering
from ps_dqn.errors import UsageError

DOUBLED, PAYING = "support.wrapped:Doubled", "support.paying_env:Paying"
DOUBLED_VECTOR = "support.wrapped_vectors:DoubledVector"
HALF = "support.wrapped_vectors:HalfAsHigh"
LAST = "support.wrapped_vectors:FramesLast"
ATARI = {"env_id": "ALE/Pong-v5"}
SETTINGS = json.dumps({"noop_max": 30})
Open = Callable[..., Environments]


def refused(**values: Any) -> str:
    with pytest.raises(UsageError) as caught:
        environments.describe(Environment(**values))
    return str(caught.value)


def test_wrappers_of_vectors_are_put_around_the_own_form(opened: Open) -> None:
    config = Environment(env_wrappers=f"{DOUBLED_VECTOR},{DOUBLED_VECTOR}")
    made = opened(config, 2)
    assert made.step(np.zeros(2, np.int64)).rewards.tolist() == [4, 4]
    vector = made._env.unwrapped
    assert not isinstance(vector, gymnasium.vector.SyncVectorEnv)


def test_what_they_make_of_observations_is_what_a_network_must_fit(opened: Open) -> None:
    pytest.importorskip("ale_py")
    made = opened(Environment(**ATARI, env_wrappers=HALF, frame_stack=4, env_kwargs=SETTINGS), 2)
    assert made.spec.observation_shape == (4, 42, 84)
    assert made.step(np.zeros(2, np.int64)).next_observations.shape == (2, 4, 42, 84)


@pytest.mark.parametrize("frames", [2, 4])
def test_ales_own_form_stacks_as_many_frames_as_are_said(opened: Open, frames: int) -> None:
    pytest.importorskip("ale_py")
    made = opened(Environment(**ATARI, frame_stack=frames), 2)
    assert made.spec.observation_shape == (frames, 84, 84)
    assert made.observations.shape == (2, frames, 84, 84)


@pytest.mark.parametrize(
    ("values", "begins", "why", "advice"),
    [
        (
            {"env_wrappers": DOUBLED, "env_kwargs": SETTINGS},
            f"--env_wrappers={DOUBLED}: goes around single environments, and those are not what "
            f"ALE/Pong-v5's own vector form is (with --env_kwargs={SETTINGS} TypeError: ",
            "unexpected keyword argument 'noop_max'",
            "): say a gymnasium.vector.VectorWrapper",
        ),
        (
            {"env_wrappers": DOUBLED},
            f"--env_wrappers={DOUBLED}: goes around single environments",
            "(observations Box(0, 255, (210, 160, 3), uint8) instead of Box(0, 255, (4, 84, 84), ",
            "say a gymnasium.vector.VectorWrapper, or say --vectorization=sync if those are meant",
        ),
        (
            {"vectorization": "sync", "env_kwargs": SETTINGS},
            f"--vectorization=sync: single environments of ALE/Pong-v5 cannot be made "
            f"with --env_kwargs={SETTINGS}",
            "noop_max",
            "): say --vectorization=auto for its own vector form",
        ),
    ],
)
def test_it_is_not_left_for_something_else(
    values: dict[str, Any], begins: str, why: str, advice: str
) -> None:
    pytest.importorskip("ale_py")
    line = refused(**ATARI, **values)
    assert line.startswith(begins)
    assert why in line
    assert line.endswith(advice)


def test_ales_own_form_does_not_stack_stacks() -> None:
    pytest.importorskip("ale_py")
    assert refused(**ATARI, frame_stack=2, env_kwargs='{"stack_num": 3}') == (
        "--frame_stack=2: ALE/Pong-v5 stacks 3 frames by itself (--env_kwargs, stack_num): say the "
        "same number, or leave one out"
    )


def test_stacks_that_a_wrapper_has_changed_are_refused() -> None:
    pytest.importorskip("ale_py")
    assert refused(**ATARI, frame_stack=4, env_wrappers=LAST) == (
        f"--frame_stack=4: ALE/Pong-v5 stacks 4 frames by itself, and its observations have the "
        f"shape (84, 84, 4) with --env_wrappers={LAST}: leave out --frame_stack"
    )


def test_single_environments_are_had_for_the_asking() -> None:
    pytest.importorskip("ale_py")
    config = Environment(**ATARI, vectorization="sync", env_wrappers=DOUBLED)
    assert environments.describe(config).observation_shape == (210, 160, 3)


def test_arguments_that_single_environments_alone_take_mean_those() -> None:
    pytest.importorskip("ale_py")
    config = Environment(**ATARI, env_kwargs='{"obs_type": "ram"}', env_wrappers=DOUBLED)
    assert environments.describe(config).observation_shape == (128,)


@pytest.mark.parametrize(
    "values",
    [{"env_wrappers": DOUBLED}, {"env_id": COUNTING, "frame_stack": 2}, {"vectorization": "async"}],
)
def test_what_is_the_same_gives_way(values: dict[str, Any]) -> None:
    environments.describe(Environment(**values))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"env_id": PAYING},
            f"goes around vectors, and {PAYING} has no vector form of its own: say a "
            f"gymnasium.Wrapper",
        ),
        (
            {"vectorization": "async"},
            "goes around vectors, and --vectorization=async makes single environments: leave that "
            "out, or say a gymnasium.Wrapper",
        ),
    ],
)
def test_wrappers_of_vectors_need_one(values: dict[str, Any], says: str) -> None:
    assert (
        refused(**values, env_wrappers=DOUBLED_VECTOR) == f"--env_wrappers={DOUBLED_VECTOR}: {says}"
    )


def test_wrappers_of_both_kinds_do_not_go_together() -> None:
    names = f"{DOUBLED},{DOUBLED_VECTOR}"
    assert refused(env_wrappers=names) == (
        f"--env_wrappers={names}: {DOUBLED_VECTOR} goes around vectors, and {DOUBLED} "
        f"around single environments: say one kind"
    )


def test_a_wrapper_of_vectors_that_fails_is_named() -> None:
    name = "support.wrapped_vectors:FailsAround"
    assert refused(env_wrappers=name).startswith(
        f"--env_wrappers={name}: {name} fails around the environment (ValueError: no such vector"
    )


def test_who_observes_images_is_not_shown_raw_frames() -> None:
    pytest.importorskip("ale_py")
    shown = rendering.looks(Environment(**ATARI, frame_stack=4), rendering.ARRAY)
    assert not shown.draws
    assert environments.describe(shown.config).observation_shape == (4, 84, 84)
