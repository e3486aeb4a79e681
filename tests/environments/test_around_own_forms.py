"""Stacks of frames and lists of actions are made around environments' own vector forms."""

import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from support.counting_env import MODES, native

from ps_dqn import environments
from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments
from ps_dqn.errors import UsageError

DOUBLED_VECTOR = "support.wrapped_vectors:DoubledVector"
Open = Callable[..., Environments]


def stack(lane: int, episode: int, time: int, frames: int) -> list[list[float]]:
    """What the counting toy shows, whose first frame stands for those before it."""
    return [[lane, episode, max(time - back, 0)] for back in reversed(range(frames))]


@pytest.mark.parametrize("frames", [2, 4])
@pytest.mark.parametrize("mode", MODES, ids=[mode.name for mode in MODES])
def test_no_stack_has_frames_of_two_episodes(
    opened: Open, mode: AutoresetMode, frames: int
) -> None:
    config = Config.from_values(
        {"env_id": native(mode).env_id, "env_kwargs": native(mode).env_kwargs,
         "frame_stack": frames}
    ).environment  # fmt: skip
    envs, found = opened(config), 0
    assert envs.spec.observation_shape == (frames, 3)
    for _ in range(30):
        step = envs.step(np.zeros(3, np.int32))
        following = step.next_observations.copy()
        following[step.final_envs] = step.final_observations
        for env in np.flatnonzero(step.is_transition).tolist():
            lane, episode, time = step.observations[env, -1].astype(int).tolist()
            assert step.observations[env].tolist() == stack(lane, episode, time, frames)
            assert following[env].tolist() == stack(lane, episode, time + 1, frames)
            found += 1
        for env in np.flatnonzero(step.begins & ~step.is_transition).tolist():
            assert envs.observations[env, -1, 2] == 0
    assert found > 60
    assert envs.observations[0, -1, 1] > 5, "there were many episodes"


def test_a_second_reset_begins_all_stacks_anew(opened: Open) -> None:
    envs = opened(Environment(env_id=native(AutoresetMode.NEXT_STEP).env_id, frame_stack=3))
    for _ in range(3):
        envs.step(np.zeros(3, np.int32))
    envs.reset(0)
    assert envs.observations.tolist() == [stack(lane, 0, 0, 3) for lane in range(3)]


class EchoVector(VectorEnv):
    """Observes what was done last."""

    def __init__(self, num_envs: int):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_action_space = gymnasium.spaces.Box(np.float32([-1, 0]), np.float32([1, 4]))
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.single_observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        assert self.action_space.contains(actions), actions
        nothing = np.zeros(self.num_envs, np.bool_)
        return actions.copy(), np.zeros(self.num_envs), nothing, nothing, {}


gymnasium.register("TestAround/Echo-v0", vector_entry_point=EchoVector)


@pytest.mark.parametrize("branching", [False, True])
def test_each_action_is_a_combination(opened: Open, branching: bool) -> None:
    config = Environment(env_id="TestAround/Echo-v0", action_bins=3, branching=branching)
    envs = opened(config, 2)
    assert envs.num_actions == 9
    assert envs.spec.branches == ((3, 3) if branching else ())
    for i, combination in enumerate([x, y] for x in (-1, 0, 1) for y in (0, 2, 4)):
        envs.step(np.array([i, 8]))
        assert envs.observations.tolist() == [combination, [1, 4]]
    assert not any(envs.failures.values())


def test_both_are_made_and_what_the_environment_takes_is_known() -> None:
    config = Environment(env_id="TestAround/Echo-v0", action_bins=5, frame_stack=2)
    found = environments.describe(config)
    assert (found.observation_shape, found.num_actions) == ((2, 2), 25)
    assert found.own is not None
    assert found.own.action == EchoVector(1).single_action_space
    assert found.own.observation == EchoVector(1).single_observation_space


def test_they_are_made_around_wrappers_of_vectors(opened: Open) -> None:
    envs = opened(Environment(env_wrappers=DOUBLED_VECTOR, frame_stack=2), 2)
    assert not isinstance(envs._env.unwrapped, SyncVectorEnv)
    assert envs.spec.observation_shape == (2, 4)
    step = envs.step(np.zeros(2, np.int64))
    assert step.rewards.tolist() == [2, 2]
    assert (step.next_observations[:, 0] == step.observations[:, 1]).all()


def test_continuous_games_of_ale_keep_their_images(opened: Open) -> None:
    pytest.importorskip("ale_py")
    kwargs = json.dumps({"continuous": True})
    envs = opened(Environment(env_id="ALE/Pong-v5", env_kwargs=kwargs, action_bins=2), 2)
    assert (envs.spec.observation_shape, envs.num_actions) == ((4, 84, 84), 8)
    assert envs.step(np.array([0, 7])).is_transition.all()


class PartsVector(EchoVector):
    """Observes a dictionary, and there is no single environment of it."""

    def __init__(self, num_envs: int):
        super().__init__(num_envs)
        self.single_observation_space = gymnasium.spaces.Dict(cell=gymnasium.spaces.Discrete(3))


gymnasium.register("TestAround/Parts-v0", vector_entry_point=PartsVector)


@pytest.mark.parametrize(("wrappers", "says"), [
    ("", "an array of its observations is made in single environments, and those are not what "),
    (DOUBLED_VECTOR, "an array of its observations (--env_id=TestAround/Parts-v0) is made in "),
])  # fmt: skip
def test_observations_of_parts_are_packed_in_single_environments_alone(
    wrappers: str, says: str
) -> None:
    config = Environment(env_id="TestAround/Parts-v0", action_bins=2, env_wrappers=wrappers)
    with pytest.raises(UsageError) as refused:
        environments.describe(config)
    assert says in str(refused.value)
