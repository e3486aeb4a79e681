"""Observations of several parts are watched over part by part."""

import pathlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ps_dqn.environments.checked import Failure
from ps_dqn.environments.guard import Guard

SPACE = spaces.Dict(
    {
        "arm": spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32)]),
        "cell": spaces.Discrete(3),
    }
)
GOOD = {"arm": (np.zeros(2, np.float32),), "cell": 1}


class Shows(gymnasium.Env):
    """Shows what it is told, after a good observation."""

    observation_space, action_space = SPACE, spaces.Discrete(2)

    def __init__(self, then: Any):
        self.then = then

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        super().reset(**kwargs)
        return GOOD, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        return self.then, 1.0, False, False, {}


@pytest.mark.parametrize(
    ("then", "kind", "said"),
    [
        (GOOD | {"arm": (np.array([0, np.nan]),)}, "not_finite", "part arm.0 is not finite"),
        (GOOD | {"arm": (np.zeros(3),)}, "malformed", r"part arm.0 has the shape \(3,\)"),
        (GOOD | {"cell": 3}, "malformed", r"part cell, 3, is not in its space Discrete\(3\)"),
        ({"cell": 1}, "malformed", "has not the parts of its space"),
        (None, "malformed", "has the shape .* and the type object"),
        ({"cell": 1, "arm": ()}, "malformed", "has not the parts of its space"),
    ],
    ids=["not finite", "shape", "number", "a part is missing", "nothing", "a place is missing"],
)
def test_what_is_wrong_is_said_of_its_part(
    then: Any, kind: str, said: str, tmp_path: pathlib.Path
) -> None:
    guard = Guard(Shows(then), {}, str(tmp_path))
    guard.reset(seed=1)
    with pytest.raises(Failure, match=said) as caught:
        guard.check(then)
    assert caught.value.kind == kind
    observation, reward, _, truncated, _ = guard.step(0)
    assert observation == GOOD
    assert (reward, truncated) == (0.0, True)


def test_numbers_of_another_type_are_numbers(tmp_path: pathlib.Path) -> None:
    guard = Guard(Shows({"arm": ([0.5, -0.5],), "cell": np.int64(2)}), {}, str(tmp_path))
    guard.reset(seed=1)
    observation, reward, _, truncated, _ = guard.step(0)
    assert observation == {"arm": ([0.5, -0.5],), "cell": 2}
    assert (reward, truncated) == (1.0, False)
