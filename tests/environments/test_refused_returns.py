"""What training would not take of an environment is refused before a run, and said in words."""

import json
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ps_dqn.config import Environment
from ps_dqn.environments import describe_and_look
from ps_dqn.errors import UsageError

# Gymnasium warns of what is refused here, and logs what a process raised.
pytestmark = pytest.mark.filterwarnings(r"ignore:.*(WARN|ERROR)")

DISCRETE, NUMBERS = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)
GOOD = np.zeros(2, np.float32)
WITH_PARTS = spaces.Dict(a=DISCRETE, b=NUMBERS)
BYTES = spaces.Box(0, 255, (2,), np.uint8)
TYPES = r"the shape \(1,\) and the type int64, not \(\) and int64"
# Of each: the space, what is observed, and what is said of it.
OBSERVED: dict[str, tuple[gymnasium.Space, Any, str]] = {
    "part array": (WITH_PARTS, {"a": np.array([1]), "b": GOOD}, f"'s part a has {TYPES}"),
    "array": (DISCRETE, np.array([1]), f"the observation has {TYPES}"),
    "float": (DISCRETE, 2.0, r"has the shape \(\) and the type float64, not \(\) and int64"),
    "out": (DISCRETE, 3, r"the observation, 3, is not in its space Discrete\(3\)"),
    "start": (spaces.Discrete(3, start=1), 0, r"0, is not in its space Discrete\(3, start=1\)"),
    "floats": (
        spaces.MultiDiscrete([3, 3]),
        np.array([1.0, 0.0]),
        r"has the shape \(2,\) and the type float64, not \(2,\) and int64",
    ),
    "one is out": (spaces.MultiDiscrete([3, 3]), np.array([1, 3]), r"array\(\[1, 3\]\), is not in"),
    "no bits": (spaces.MultiBinary(3), np.array([2, 0, 1]), r"array\(\[2, 0, 1\]\), is not in its"),
    "tuple": (
        spaces.Tuple([DISCRETE, spaces.Box(-1, 1, (), np.float32)]),
        np.array([1, 0.5]),
        r"part 0 has the shape \(\) and the type float64, not \(\) and int64",
    ),
    "scalar": (
        spaces.Dict(a=spaces.Box(-1, 1, (1,), np.float32), b=DISCRETE),
        {"a": 0.5, "b": 1},
        r"part a has the shape \(\) and the type float64, not \(1,\) and float32",
    ),
    "shape": (NUMBERS, np.zeros(4), r"has the shape \(4,\) and the type float64, not \(2,\) and "),
    "nothing": (NUMBERS, None, r"has the shape \(\) and the type object, not \(2,\) and float32"),
    "of several lengths": (NUMBERS, [[0], [0, 1]], "is no array of numbers"),
}  # fmt: skip


class Returning(gymnasium.Env):
    """Returns what it is told, `after` so many steps, and before that what is good."""

    action_space = spaces.Discrete(2)

    def __init__(self, what: str, after: int = 0):
        self._what, self._after, self._steps = what, after, 0
        self.observation_space = OBSERVED[what][0] if what in OBSERVED else NUMBERS

    def _observe(self) -> Any:
        if self._what not in OBSERVED:
            return GOOD
        if self._steps < self._after:
            return self.observation_space.sample()
        return OBSERVED[self._what][1]

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        returned = self._observe(), {}
        return returned[0] if self._what == "old reset" else returned

    def step(self, action: int) -> Any:
        self._steps += 1
        if self._what == "old step":
            return self._observe(), 1.0, False, {}
        return self._observe(), REWARDS.get(self._what, 1.0), False, False, {}


REWARDS = {
    "list": [1.0],
    "array of one": np.array([1.0]),
    "text": "1.0",
    "none": None,
    "two": (1, 2),
}
gymnasium.register("TestReturned/Returning-v0", Returning)
gymnasium.register("TestReturned/Limited-v0", Returning, max_episode_steps=5)


def refused(
    env_id: str = "TestReturned/Returning-v0", vectorization: str = "auto", **kwargs
) -> str:
    """The line that says why it is refused."""
    config = Environment(env_id=env_id, env_kwargs=json.dumps(kwargs), vectorization=vectorization)
    with pytest.raises(UsageError) as caught:
        describe_and_look(config, is_strict=True)
    line = str(caught.value)
    assert line.startswith(f"--env_id={env_id}: ")
    assert "numpy" not in line, "a place within NumPy helps nobody"
    return line


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("what", OBSERVED)
def test_observations_that_are_none_of_the_space(what: str, after: int) -> None:
    assert re.search(OBSERVED[what][2], refused(what=what, after=after))


@pytest.mark.parametrize("what", ["part array", "shape"])
def test_an_environment_in_a_process_of_its_own_is_refused_in_the_same_words(what: str) -> None:
    assert refused(what=what, vectorization="async") == refused(what=what)


@pytest.mark.parametrize("what", REWARDS)
def test_a_reward_that_is_no_number_is_said_to_be_one(what: str) -> None:
    assert refused(what=what).endswith(f": the reward is {REWARDS[what]!r}, and no number")


@pytest.mark.parametrize("env_id", ["TestReturned/Returning-v0", "TestReturned/Limited-v0"])
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("old reset", "reset must return two things, (observation, info)"),
        (
            "old step",
            "step must return five things, (observation, reward, terminated, truncated, info)",
        ),
    ],
)
def test_the_interface_of_gym_before_gymnasium(env_id: str, what: str, said: str) -> None:
    assert said in refused(env_id, what=what)
