"""What one environment returns, checked against its spaces: what is none is never learned from."""

import math
from typing import Any

import gymnasium
import numpy as np

from ps_dqn.environments import parts


class Failure(Exception):  # noqa: N818 - it is none of the program's
    """What an environment did wrong: its kind, and a text."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Checked(gymnasium.Wrapper):
    """One environment, whose observations and rewards can be checked."""

    def __init__(self, env: gymnasium.Env):
        """Goes around an environment."""
        super().__init__(env)
        self._is_box = isinstance(env.observation_space, gymnasium.spaces.Box)

    def check(self, observation: Any, reward: Any = 0.0) -> Any:
        """The observation, if it is one.

        Raises:
            Failure: it is none of the environment's space, or the reward is no finite number.
        """
        if not _is_finite(reward):
            raise Failure("not_finite", f"the reward is {reward}")
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
                raise Failure("malformed", f"{what}, {value!r:.200}, is not in its space {space}")
        return observation


def _array(space: Any, value: Any, what: str) -> np.ndarray:
    """Numbers of a Box, if they are finite ones of its shape.

    Raises:
        Failure: they are not.
    """
    array = value if type(value) is np.ndarray else np.array(value)
    if array.shape != space.shape or array.dtype.kind not in "biuf":
        raise Failure(
            "malformed",
            f"{what} has the shape {array.shape} and the type {array.dtype}, not {space.shape} and "
            f"{space.dtype}",
        )
    # A product is quicker; it may overflow where all numbers are finite.
    is_finite = array.dtype.kind != "f" or math.isfinite(np.vdot(array, array))
    if not is_finite and not np.isfinite(array).all():
        raise Failure("not_finite", f"{what} is not finite")
    return array


def _is_finite(reward: Any) -> bool:
    """Whether a reward is a finite number.

    Raises:
        Failure: it is no number.
    """
    try:
        return math.isfinite(reward)
    except (TypeError, ValueError):
        raise Failure("malformed", f"the reward is {reward!r:.200}, and no number") from None
