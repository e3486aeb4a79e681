"""Environments stack frames, unless they do so by themselves.

The toy's frames are all one number: that of the frame, counted from the first of the environment.
An episode has four frames.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.counting_env import COUNTING

from ps_dqn import environments
from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments
from ps_dqn.replay import plan
from ps_dqn.replay.batch import Transitions
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor

LENGTH = 4


class Numbered(gymnasium.Env):
    """Shows how many frames it has shown; with `stack`, that many of them by itself."""

    def __init__(self, shape: list[int], dtype: str = "uint8", stack: int = 0):
        self._shape, self._stack = tuple(shape), stack
        shown = (stack, *shape) if stack else self._shape
        self.observation_space = gymnasium.spaces.Box(
            0, 1 if dtype == "bool" else 255, shown, np.dtype(dtype).type
        )
        self.action_space = gymnasium.spaces.Discrete(2)
        self._number, self._time = -1, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._number, self._time = self._number + 1, 0
        self._frames = [self._number] * max(self._stack, 1)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._number, self._time = self._number + 1, self._time + 1
        self._frames = [*self._frames[1:], self._number]
        return self._observation(), 1.0, self._time == LENGTH - 1, False, {}

    def _observation(self) -> np.ndarray:
        dtype = self.observation_space.dtype
        frames = np.array([np.full(self._shape, number, dtype) for number in self._frames])
        return frames if self._stack else frames[0]


gymnasium.register("TestStackedEnvironments/Numbered-v0", Numbered, disable_env_checker=True)


class Cells(gymnasium.Env):
    """Says in which of three cells it is, one after the other."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self._cell = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict]:
        self._cell = (self._cell + 1) % 3
        return self._cell, 0.0, False, False, {}


gymnasium.register("TestStackedEnvironments/Cells-v0", Cells, disable_env_checker=True)

IMAGE, VECTOR = {"shape": [5, 6, 1]}, {"shape": [2], "dtype": "float32"}
SELF_STACKING = {"shape": [5, 6], "stack": 4}


def numbered(frame_stack: int, kwargs: dict[str, Any], vectorization: str = "auto") -> Environment:
    return Environment(
        env_id="TestStackedEnvironments/Numbered-v0",
        env_kwargs=json.dumps(kwargs),
        frame_stack=frame_stack,
        vectorization=vectorization,
    )


@pytest.fixture
def opened() -> Iterator[Callable[..., Environments]]:
    """Makes environments and closes them after the test."""
    made: list[Environments] = []

    def make(config: Environment, num_envs: int = 2) -> Environments:
        made.append(Environments(config, num_envs))
        made[-1].reset(0)
        return made[-1]

    yield make
    for each in made:
        each.close()


def stacks(envs: Environments, steps: int) -> list[list[int]]:
    """The numbers in the first environment's stacks, from the one that is there on."""
    found = []
    for step in range(steps):
        if step:
            envs.step(np.zeros(envs.num_envs, np.int32))
        assert (envs.observations[0] == envs.observations[1]).all()
        first = envs.observations[0]
        frames = first.reshape(len(first), -1)
        assert (frames == frames[:, :1]).all(), "every frame is whole"
        found.append(frames[:, 0].astype(int).tolist())
    return found


@pytest.mark.parametrize("vectorization", ["auto", "sync", "async"])
@pytest.mark.parametrize("kwargs", [IMAGE, VECTOR], ids=["image", "vector"])
def test_an_observation_is_the_newest_frames_of_its_episode(
    opened: Callable[..., Environments], kwargs: dict[str, Any], vectorization: str
) -> None:
    envs = opened(numbered(3, kwargs, vectorization))
    assert envs.observations.shape == (2, 3, *kwargs["shape"])
    assert stacks(envs, 7) == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 1, 2],
        [1, 2, 3],
        # The reset: nothing is left of the episode before.
        [4, 4, 4],
        [4, 4, 5],
        [4, 5, 6],
    ]


@pytest.mark.parametrize(
    ("kwargs", "frame_stack", "shape", "dtype"),
    [
        (IMAGE, 1, (5, 6, 1), np.uint8),
        (IMAGE, 4, (4, 5, 6, 1), np.uint8),
        (VECTOR, 1, (2,), np.float32),
        (VECTOR, 4, (4, 2), np.float32),
        # As many numbers as there are to be frames are no stack.
        (VECTOR, 2, (2, 2), np.float32),
        ({"shape": [5, 6], "dtype": "bool"}, 4, (4, 5, 6), np.bool_),
        (SELF_STACKING, 1, (4, 5, 6), np.uint8),
        (SELF_STACKING, 4, (4, 5, 6), np.uint8),
        (SELF_STACKING, 2, (2, 4, 5, 6), np.uint8),
        # Frames with channels.
        ({"shape": [5, 6, 3], "stack": 4}, 4, (4, 5, 6, 3), np.uint8),
    ],
    ids=str,
)
def test_the_network_is_told_of_the_frames(
    kwargs: dict[str, Any], frame_stack: int, shape: tuple[int, ...], dtype: type
) -> None:
    spec = environments.describe(numbered(frame_stack, kwargs))
    assert (spec.observation_shape, spec.observation_dtype) == (shape, np.dtype(dtype))


def test_an_environment_that_stacks_frames_itself_is_left_alone(
    opened: Callable[..., Environments],
) -> None:
    envs = opened(numbered(4, SELF_STACKING))
    assert stacks(envs, 3) == [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 2]]


def test_what_is_no_box_is_packed_before_it_is_stacked(
    opened: Callable[..., Environments],
) -> None:
    envs = opened(Environment(env_id="TestStackedEnvironments/Cells-v0", frame_stack=2))
    envs.step(np.zeros(2, np.int32))
    assert envs.observations.view(np.int32).tolist() == [[[0], [1]]] * 2


def test_an_environments_own_vector_form_is_left_for_frames(
    opened: Callable[..., Environments],
) -> None:
    # It knows no wrappers for single environments.
    envs = opened(Environment(env_id=COUNTING, frame_stack=2), num_envs=3)
    envs.step(np.zeros(3, np.int32))
    # [lane, episode, time], the newest last.
    assert envs.observations.tolist() == [[[i, 0, 0], [i, 0, 1]] for i in range(3)]


def configuration(frame_stack: int, kwargs: dict[str, Any]) -> Config:
    values = {
        "env_id": "TestStackedEnvironments/Numbered-v0", "env_kwargs": json.dumps(kwargs),
        "frame_stack": frame_stack, "num_envs_per_worker": 2, "update_period": 2,
        "local_updates": 1, "batch_size": 500, "n_step": 1, "replay_capacity": 200,
        "min_replay_size": 1,
    }  # fmt: skip
    return Config.from_values(values)


def actor(frame_stack: int, kwargs: dict[str, Any]) -> Actor:
    return Actor(configuration(frame_stack, kwargs), worker=0)


@pytest.mark.parametrize("kwargs", [IMAGE, VECTOR, SELF_STACKING], ids=str)
def test_replay_gives_back_the_stacks_that_were_acted_on(kwargs: dict[str, Any]) -> None:
    worker, pairs = actor(4, kwargs), set()
    for _ in range(30):
        observations, states, _ = worker.acting
        before = observations[0].reshape(4, -1)[:, 0].tolist()
        worker.step(Acted(np.zeros(2, np.int32), states), 0.0)
        after = worker.environments.observations[0].reshape(4, -1)[:, 0].tolist()
        if after[-1] % LENGTH:  # not the first of an episode
            pairs.add((tuple(before), tuple(after)))
    drawn = worker.memory.sample(*worker.nothing.actions.shape)
    assert isinstance(drawn, Transitions)
    sampled = {
        tuple(tuple(each.reshape(4, -1)[:, 0].tolist()) for each in pair)
        for pair in zip(drawn.observations[0], drawn.next_observations[0], strict=True)
    }
    assert sampled <= pairs
    assert len(pairs) - len(sampled) <= 1, "all but the newest"
    worker.close()


def test_replay_keeps_each_frame_once() -> None:
    # 240 bytes a frame; the rest of a row is the same.
    kwargs = {"shape": [5, 48]}
    sizes = {}
    for frame_stack in (1, 4):
        config = configuration(frame_stack, kwargs)
        made = plan.plan_replay(config, environments.describe(config.environment))
        assert (frame_stack > 1) == (made.layout.observation_shape[0] == 4)
        sizes[frame_stack] = made.nbytes
    assert sizes[4] < 1.1 * sizes[1]
