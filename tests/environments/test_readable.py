"""Observations that no network can read are refused by the names of their parts."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ps_dqn.environments import readable
from ps_dqn.errors import UsageError

NUMBERS = spaces.Box(-1, 1, (2,), np.float32)
NOTHING = spaces.Box(-1, 1, (0,), np.float32)


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (spaces.Dict({"a/b": NUMBERS}), "part a/b of its observations has a / in its name"),
        (spaces.Dict({"a": spaces.Dict({"b/": NUMBERS})}), "part a.b/ of its observations has a /"),
        (
            spaces.Dict({"a.b": NUMBERS, "a": spaces.Dict({"b": spaces.Discrete(2)})}),
            "two parts of its observations are called a.b, as nested names are joined by dots",
        ),
        (spaces.Dict({1: NUMBERS, "1": NUMBERS}), "two parts of its observations are called 1"),
        (spaces.Dict({"a": NOTHING, "b": NUMBERS}), "part a of its observations has no numbers"),
        (spaces.Tuple([NUMBERS, spaces.Box(0, 9, (2, 0), np.int64)]), "part 1 of its observations"),
        (NOTHING, "its observations have no numbers"),
        (spaces.Dict({}), "its observations have no numbers"),
        (spaces.Tuple([]), "its observations have no numbers"),
        (spaces.Discrete(2**40), "numbers of things in its observations are beyond 32 bits"),
        (
            spaces.Dict({"a": spaces.Discrete(3, start=2**31)}),
            "numbers of things in part a of its observations are beyond 32 bits",
        ),
        (spaces.MultiDiscrete([3, 2**40]), "beyond 32 bits (MultiDiscrete("),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused(space: gymnasium.Space, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        readable.check("odd:Env", space)
    line = str(caught.value)
    assert line.startswith("--env_id=odd:Env: ")
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "space",
    [
        NUMBERS,
        spaces.Box(-1, 1, (), np.float32),
        spaces.Discrete(2**31 - 1),
        spaces.Dict({"a": spaces.Tuple([NUMBERS, NUMBERS]), "a.2": NUMBERS, "b c": NUMBERS}),
        spaces.Tuple([spaces.OneOf([NUMBERS, NOTHING]), spaces.MultiBinary(3)]),
    ],
    ids=str,
)
def test_others_are_read(space: gymnasium.Space) -> None:
    readable.check("usual:Env", space)
