"""Data sets of Minari's are read as what workers keep of the same environment."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ps_dqn.config import Config, Environment
from ps_dqn.coordinator.checks import demonstrated
from ps_dqn.environments import Environments, describe, listed
from ps_dqn.errors import UsageError
from ps_dqn.replay import demonstrations
from ps_dqn.replay.batch import Transitions
from ps_dqn.replay.demonstration_files import read
from ps_dqn.replay.demonstrations import Steps
from ps_dqn.replay.plan import make_memory
from ps_dqn.replay.rows import TERMINATED, TRUNCATED

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari")

LENGTHS = (3, 2)  # of episodes; the first is cut off, the second ends by itself
OBSERVED: dict[str, spaces.Space] = {
    "numbers": spaces.Box(-9, 9, (2,), np.float64),
    "cells": spaces.Discrete(9, start=1),
    "dictionary": spaces.Dict(
        place=spaces.Box(0, 9, (2,), np.float64), cell=spaces.Discrete(9, start=1)
    ),
    "tuple": spaces.Tuple(
        [spaces.MultiDiscrete([3, 4], start=[0, 2]), spaces.Dict(on=spaces.MultiBinary(3))]
    ),
}
DONE: dict[str, spaces.Space] = {
    "whole": spaces.Discrete(3),
    "shifted": spaces.Discrete(3, start=-1),
    "choices": spaces.MultiDiscrete([2, 3], start=[0, 5]),
    "bits": spaces.MultiBinary(2),
    "torques": spaces.Box(np.float32([-1, 0]), np.float32([1, 4])),
    "both": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]),
}


class Toy(gymnasium.Env):
    """What is observed follows from how many steps there were, whatever is done."""

    def __init__(self, observed: str = "numbers", done: str = "whole"):
        self.observation_space, self.action_space = OBSERVED[observed], DONE[done]

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self._time = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self._time += 1
        return self._seen(), 1.0, False, False, {}

    def _seen(self) -> Any:
        self.observation_space.seed(self._time)
        return self.observation_space.sample()


gymnasium.register("TestMinari/Toy-v0", Toy, disable_env_checker=True)

Make = Callable[..., Steps]


def config_of(observed: str = "numbers", done: str = "whole", **values: Any) -> Config:
    kwargs = json.dumps({"observed": observed, "done": done})
    return Config.from_values({"env_id": "TestMinari/Toy-v0", "env_kwargs": kwargs, **values})


def options(observed: str = "numbers", done: str = "whole", **values: Any) -> Environment:
    return config_of(observed, done, **values).environment


@pytest.fixture
def made(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a data set of what single environments observe, and reads it for another one."""
    import minari
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    def make(config: Environment, actions: Any, of: Environment | None = None) -> Steps:
        toy = Toy(**json.loads((of or config).env_kwargs))
        episodes, done = [], np.asarray(actions)
        for number, length in enumerate(LENGTHS):
            seen = [toy.reset()[0]] + [toy.step(None)[0] for _ in range(length)]
            last = np.arange(length) == length - 1
            episodes.append(
                EpisodeBuffer(
                    id=number,
                    observations=stacked(toy.observation_space, seen),
                    actions=done[:length],
                    rewards=[1.5] * length,
                    terminations=list(last & (number == 1)),
                    truncations=list(last & (number == 0)),
                )
            )
            done = done[length:]
        minari.create_dataset_from_buffers(
            "toy/made-v0",
            episodes,
            observation_space=toy.observation_space,
            action_space=toy.action_space,
        )
        return read("minari:toy/made-v0", describe(config), config.action_bins)

    return make


def stacked(space: spaces.Space, seen: list[Any]) -> Any:
    """Observations as a data set has them: a list for each part."""
    if isinstance(space, spaces.Dict):
        return {
            name: stacked(each, [one[name] for one in seen]) for name, each in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(each, [one[i] for one in seen]) for i, each in enumerate(space.spaces))
    return seen


def kept(config: Environment) -> tuple[list[Any], list[Any]]:
    """What workers keep of the observations of both episodes, and of those that steps led to."""
    shown, following = [], []
    for length in LENGTHS:
        envs = Environments(config, 1)
        envs.reset(seed=0)
        for _ in range(length):
            step = envs.step(np.zeros(1, np.int32))
            shown.append(step.observations[0].tolist())
            following.append(step.next_observations[0].tolist())
        envs.close()
    return shown, following


@pytest.mark.parametrize("frame_stack", [1, 3])
@pytest.mark.parametrize("observed", OBSERVED)
def test_observations_are_read_as_workers_keep_them(
    made: Make, observed: str, frame_stack: int
) -> None:
    config = options(observed, frame_stack=frame_stack)
    steps = made(config, [0, 1, 2, 0, 1])
    assert steps.next_observations is not None
    assert (steps.observations.tolist(), steps.next_observations.tolist()) == kept(config)
    assert steps.observations.dtype == describe(config).observation_dtype
    assert steps.actions.tolist() == [0, 1, 2, 0, 1]
    assert steps.rewards.tolist() == [1.5] * 5
    assert steps.ends.tolist() == [0, 0, TRUNCATED, 0, TERMINATED]
    if frame_stack > 1:
        demonstrations.check_stacks(steps, frame_stack)


@pytest.mark.parametrize(("done", "bins", "numbers"), [
    ("whole", 0, [0, 1, 2, 0, 1]),
    ("shifted", 0, [0, 1, 2, 0, 1]),
    ("choices", 0, [0, 1, 5, 3, 4]),
    ("bits", 0, [0, 1, 2, 3, 1]),
    ("torques", 3, [0, 4, 8, 1, 3]),
])  # fmt: skip
@pytest.mark.parametrize("branching", [False, True])
def test_actions_become_the_numbers_that_do_the_same(
    made: Make, done: str, bins: int, numbers: list[int], branching: bool
) -> None:
    is_listed = done not in ("whole", "shifted")
    config = options(done=done, action_bins=bins, branching=branching and is_listed)
    actions = listed.own_actions(DONE[done], bins).of(np.array(numbers))
    steps = made(config, actions)
    assert steps.actions.tolist() == numbers
    assert demonstrations.describe_moved(steps, bins) == []


def test_actions_between_those_of_the_grid_are_moved_and_it_is_said(made: Make) -> None:
    config = options(done="torques", action_bins=3)
    actions = np.float32([[-0.9, 0], [-1, 0.4], [0.2, 2], [1, 4], [0, 4.8]])
    steps = made(config, actions)
    assert steps.actions.tolist() == [0, 0, 4, 8, 5]
    values = {"demonstrations": "minari:toy/made-v0", "offline": True}
    whole = config_of(done="torques", action_bins=3, **values)
    spec = describe(config)
    # 0.1 of 2, 0.4 of 4, 0.2 of 2, nothing, and 0.8 of 4.
    assert demonstrated.read(whole, spec, 1)[1:] == [
        "demonstrations: actions are taken for the nearest of --action_bins=3, which moves their "
        "numbers by 9.0% of their ranges in the mean and 20.0% at most"
    ]
    batch = make_memory(whole, spec, np.random.default_rng(0), None).sample(2, 32)
    assert isinstance(batch, Transitions)
    assert set(batch.actions.ravel().tolist()) == {0, 4, 5, 8}


@pytest.mark.parametrize(("observed", "done", "of", "actions", "reason"), [
    ("numbers", "whole", ("cells", "whole"), [0] * 5,
     "its observations are Discrete(9, start=1), and those of the environment are Box("),
    ("dictionary", "whole", ("numbers", "whole"), [0] * 5,
     "its observations are Box(-9.0, 9.0, (2,), float64), and those of the environment are Dict("),
    ("numbers", "whole", ("numbers", "bits"), [[0, 1]] * 5,
     "its actions are MultiBinary(2), and those of the environment are Discrete(3)"),
    ("numbers", "bits", ("numbers", "whole"), [0] * 5,
     "its actions are Discrete(3), and those of the environment are MultiBinary(2)"),
    ("numbers", "choices", ("numbers", "choices"), [[0, 5], [1, 8], [0, 6], [0, 6], [0, 6]],
     "step 1 has the action [1, 8], which is none of MultiDiscrete([2 3], start=[0 5])"),
    ("numbers", "torques", ("numbers", "torques"), [[0, np.nan]] * 5, "are not all finite"),
    ("cells", "whole", ("cells", "shifted"), [2] * 5, "step 0 has the action 3, and the"),
])  # fmt: skip
def test_what_is_of_another_environment_is_refused(
    made: Make, observed: str, done: str, of: tuple[str, str], actions: Any, reason: str
) -> None:
    config = options(observed, done, action_bins=3 if done == "torques" else 0)
    with pytest.raises(UsageError) as refused:
        made(config, actions, options(*of))
    assert str(refused.value).startswith("--demonstrations=minari:toy/made-v0: ")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_data_set_that_is_not_there_can_be_downloaded(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(UsageError, match="`minari download toy/three-v0` brings it here"):
        read("minari:toy/three-v0", describe(options()))
