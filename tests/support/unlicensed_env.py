"""An environment that cannot be had everywhere, as where a licence, a game or a display is missing.

It observes the number of the step, and ends after four.
"""

import builtins
import sys
from typing import Any

import gymnasium
import numpy as np

LENGTH = 4


class Unlicensed(gymnasium.Env):
    """Raises where it is made or where it is to begin, in all processes or in those of a module."""

    def __init__(self, when: str = "made", error: str = "RuntimeError", module: str = ""):
        self.observation_space = gymnasium.spaces.Box(0, LENGTH, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._when, self._error, self._time = when, getattr(builtins, error), 0
        self._is_here = not module or module in sys.orig_argv
        self._fail("made")

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._fail("begun")
        self._time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._time += 1
        return np.array([self._time], np.float32), 1.0, self._time == LENGTH, False, {}

    def _fail(self, when: str) -> None:
        if self._is_here and when == self._when:
            raise self._error(f"no licence\nfor what is {when}")


gymnasium.register("tests/Unlicensed-v0", Unlicensed, disable_env_checker=True)
