"""What one environment returns, checked against its spaces: what is none is never learned from."""

import math
import traceback
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from ps_dqn import user_code
from ps_dqn.environments import masks, parts
from ps_dqn.errors import UsageError

# What Gymnasium's interface wants of an environment.
RESET = "its reset must return two things, (observation, info)"
STEP = "its step must return five things, (observation, reward, terminated, truncated, info)"

# More is infinite in float32, which is what is kept of quantities and rewards.
_LARGEST = float(np.finfo(np.float32).max)


class Failure(Exception):  # noqa: N818 - it is none of the program's
    """What an environment did wrong: its kind, and a text."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Checked(gymnasium.Wrapper):
    """One environment, whose mistakes are raised in words: in observations, rewards and masks."""

    def __init__(self, env: gymnasium.Env, has_masks: bool = False):
        """Goes around an environment.

        Args:
            env: it.
            has_masks: masks in its infos, if there are any, are read.
        """
        super().__init__(env)
        self._is_box = isinstance(env.observation_space, gymnasium.spaces.Box)
        self._mask_size = 0  # they are not read
        if has_masks and isinstance(env.action_space, gymnasium.spaces.Discrete):
            self._mask_size = int(env.action_space.n)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode.

        Raises:
            UsageError: what it returns is malformed.
        """
        observation, info = _returned(RESET, 2, self.env.reset, seed=seed, options=options)
        return self._unless_malformed(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Acts.

        Raises:
            UsageError: what it returns is malformed.
        """
        observation, reward, terminated, truncated, info = _returned(STEP, 5, self.env.step, action)
        observation = self._unless_malformed(observation, info, reward)
        return observation, reward, terminated, truncated, info

    def _unless_malformed(self, observation: Any, info: dict[str, Any], reward: Any = 0.0) -> Any:
        try:
            return self.check(observation, info, reward)
        except Failure as failure:
            if failure.kind == "malformed":  # numbers that are not finite may be a few
                raise UsageError(str(failure)) from None
            return observation

    def check(self, observation: Any, info: dict[str, Any], reward: Any = 0.0) -> Any:
        """The observation, if it is one; an array of the kept bytes or bits where it is a Box's.

        Raises:
            Failure: it is none of the environment's space, the reward is no finite number, or the
                mask in the info is none of its actions.
        """
        if self._mask_size and masks.KEY in info:
            try:
                masks.check(info[masks.KEY], self._mask_size)
            except masks.MisfitError as error:
                raise Failure("malformed", str(error)) from None
        if not _is_finite(reward):
            raise Failure("not_finite", f"the reward, {reward}, is not finite in float32")
        if self._is_box:
            return _array(self.env.observation_space, observation, "the observation")
        try:
            leaves = list(parts.leaves(self.env.observation_space, observation))
        except (TypeError, LookupError):
            raise Failure(
                "malformed", f"the observation {observation!r:.200} has not the parts of its space"
            ) from None
        for name, space, value in leaves:
            what = f"the observation's part {name}" if name else "the observation"
            if isinstance(space, gymnasium.spaces.Box):
                _array(space, value, what)
            elif not space.contains(value):
                raise Failure("malformed", _why_not_in(space, value, what))
        return observation


def _array(space: Any, value: Any, what: str) -> np.ndarray:
    """Numbers of a Box, if they are of its shape, and finite as they are kept.

    What is kept as bytes or bits is returned as such.

    Raises:
        Failure: they are not.
    """
    array = value if type(value) is np.ndarray else _as_array(value, what)
    if array.shape != space.shape or array.dtype.kind not in "biuf":
        raise Failure("malformed", _unlike(space, array, what))
    # A product is quicker; it may be larger, or overflow, where all numbers are finite.
    is_finite = array.dtype.kind != "f" or float(np.vdot(array, array)) <= _LARGEST**2
    if not is_finite and not _are_finite(array):
        raise Failure("not_finite", f"{what} is not finite in float32")
    return array if array.dtype == space.dtype else _cast(space, array, what)


def _as_array(value: Any, what: str) -> np.ndarray:
    try:
        return np.array(value)
    except ValueError:
        raise Failure("malformed", f"{what}, {value!r:.200}, is no array of numbers") from None


def _are_finite(array: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(array.astype(np.float32)).all())


def _cast(space: Any, array: np.ndarray, what: str) -> np.ndarray:
    """The same, or bytes or bits where these are kept and all numbers are such.

    Raises:
        Failure: some are not, like pixels from 0 to 1.
    """
    kept = parts.kept_dtype(space)
    if kept == np.float32:
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(kept)
    if (cast != array).any():
        raise Failure(
            "malformed",
            f"{what}, {array!r:.200}, is of {array.dtype}, and {kept}, which its space says, would "
            f"change its numbers",
        )
    return cast


def _unlike(space: Any, array: np.ndarray, what: str) -> str:
    """Says which shape and type were found and wanted."""
    return (
        f"{what} has the shape {array.shape} and the type {array.dtype}, not {space.shape} and "
        f"{space.dtype}"
    )


def _why_not_in(space: Any, value: Any, what: str) -> str:
    """Says why a value is not in a space that is no Box."""
    if space.shape is not None:  # one of several spaces has none
        array = _as_array(value, what)
        if array.shape != space.shape or array.dtype.kind not in "biu":
            return _unlike(space, array, what)
    return f"{what}, {value!r:.200}, is not in its space {space}"


def _returned(wanted: str, count: int, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a reset or a step returns, if it is so many things.

    Raises:
        UsageError: it is not, for this wrapper or for one of Gymnasium's within.
    """
    try:
        returned = call(*args, **kwargs)
    except ValueError as error:
        frames = reversed(list(traceback.walk_tb(error.__traceback__)))
        if "values to unpack" in str(error) and not user_code.place(frames):
            raise UsageError(f"{wanted} ({error})") from None
        raise
    if not isinstance(returned, tuple | list):
        raise UsageError(f"{wanted}, and not a {type(returned).__name__}")
    if len(returned) != count:
        raise UsageError(f"{wanted}, and not {len(returned)}")
    return returned


def _is_finite(reward: Any) -> bool:
    """Whether a reward is a number that is finite as it is kept.

    Raises:
        Failure: it is no number.
    """
    try:
        if type(reward) is np.ndarray and reward.ndim:
            raise TypeError  # NumPy takes an array of one number for a number, and warns
        return math.isfinite(reward) and abs(float(reward)) <= _LARGEST
    except (TypeError, ValueError):
        raise Failure("malformed", f"the reward is {reward!r:.200}, and no number") from None
