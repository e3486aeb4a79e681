"""Observations of several parts are watched over part by part."""

import json
import pathlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ps_dqn.config import Environment
from ps_dqn.environments import Environments, describe
from ps_dqn.environments.checked import Failure
from ps_dqn.environments.guard import Guard
from ps_dqn.errors import UsageError

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
        guard.check(then, {})
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


DOUBLES = spaces.Box(-np.inf, np.inf, (2,), np.float64)


class Doubles(gymnasium.Env):
    """Shows one number of 64 bits, alone or as a part."""

    action_space = spaces.Discrete(2)

    def __init__(self, number: float, is_part: bool = False):
        self._number, self._is_part = number, is_part
        self.observation_space = spaces.Dict(a=DOUBLES) if is_part else DOUBLES

    def _observe(self) -> Any:
        numbers = np.array([self._number, 1.0])
        return {"a": numbers} if self._is_part else numbers

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        return self._observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        return self._observe(), 1.0, False, False, {}


gymnasium.register("TestGuardedParts/Doubles-v0", Doubles, disable_env_checker=True)
LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("is_part", [True, False])
def test_numbers_must_be_finite_as_they_are_kept(is_part: bool, tmp_path: pathlib.Path) -> None:
    env = Doubles(1e39, is_part)
    with pytest.raises(Failure, match="is not finite in float32") as caught:
        Guard(env, {}, str(tmp_path)).check(*env.reset())
    assert caught.value.kind == "not_finite"
    for number in (LARGEST, -LARGEST, 1e30):
        env = Doubles(number, is_part)
        Guard(env, {}, str(tmp_path)).check(*env.reset())


@pytest.mark.parametrize("is_part", ["true", "false"])
def test_what_begins_beyond_what_is_kept_is_refused(is_part: str) -> None:
    kwargs = f'{{"number": 1e39, "is_part": {is_part}}}'
    with pytest.raises(UsageError, match="its first observation is not finite in float32"):
        describe(Environment(env_id="TestGuardedParts/Doubles-v0", env_kwargs=kwargs))


def test_numbers_of_few_bits_must_be_finite_too(tmp_path: pathlib.Path) -> None:
    guard = Guard(Doubles(0.0), {}, str(tmp_path))
    guard.check(np.full(2, 60_000, np.float16), {})  # whose square is none of 16 bits
    with pytest.raises(Failure, match="is not finite"):
        guard.check(np.array([np.inf, 0.0], np.float16), {})


BYTES, BITS = spaces.Box(0, 255, (2,), np.uint8), spaces.Box(0, 1, (2,), np.bool_)


class Casts(gymnasium.Env):
    """Shows what it is told in a space of bytes or bits."""

    action_space = spaces.Discrete(2)

    def __init__(self, shows: list[float], dtype: str, is_bits: bool, is_part: bool):
        space = BITS if is_bits else BYTES
        self._shows, self._is_part = np.array(shows, dtype), is_part
        self.observation_space = spaces.Dict(a=space) if is_part else space

    def _observe(self) -> Any:
        return {"a": self._shows} if self._is_part else self._shows

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        return self._observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        return self._observe(), 1.0, False, False, {}


gymnasium.register("TestGuardedParts/Casts-v0", Casts, disable_env_checker=True)


def casting(shows: list[float], dtype: str, is_bits: bool, is_part: bool) -> Environment:
    kwargs = {"shows": shows, "dtype": dtype, "is_bits": is_bits, "is_part": is_part}
    return Environment(env_id="TestGuardedParts/Casts-v0", env_kwargs=json.dumps(kwargs))


@pytest.mark.parametrize("is_part", [True, False])
@pytest.mark.parametrize(
    ("shows", "dtype", "is_bits"),
    [
        ([0.5, 1.0], "float32", False),
        ([0.0, 300.0], "float64", False),
        ([-1, 2], "int64", False),
        ([300, 2], "uint64", False),
        ([0.5, 1.0], "float32", True),
        ([0, 2], "uint8", True),
    ],
    ids=str,
)
def test_what_bytes_or_bits_would_change_is_refused(
    shows: list[float], dtype: str, is_bits: bool, is_part: bool
) -> None:
    with pytest.raises(UsageError, match=f"is of {dtype}, and .* would change its numbers"):
        describe(casting(shows, dtype, is_bits, is_part))


@pytest.mark.parametrize("is_part", [True, False])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float32"])
@pytest.mark.parametrize("is_bits", [True, False])
def test_what_bytes_or_bits_hold_is_taken(dtype: str, is_bits: bool, is_part: bool) -> None:
    shows = [0.0, 1.0] if is_bits else [0.0, 255.0]
    envs = Environments(casting(shows, dtype, is_bits, is_part), 2)
    envs.reset(0)
    step = envs.step(np.zeros(2, np.int64))
    assert step.next_observations.tolist() == [shows] * 2
    assert not any(envs.failures.values())
    envs.close()
