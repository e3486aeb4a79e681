"""A lock of several dials: each that shows what is asked for pays a share of 1."""

from typing import Any

import gymnasium
import numpy as np

LENGTH = 8


class Locks(gymnasium.Env):
    """Asks for a choice of each dial; there are `choices` ** `dials` actions."""

    def __init__(self, dials: int = 6, choices: int = 5):
        self.observation_space = gymnasium.spaces.Box(0, 1, (dials * choices,), np.float32)
        self.action_space = gymnasium.spaces.MultiDiscrete([choices] * dials)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._time = 0
        return self._ask(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._time += 1
        reward = float((np.asarray(action) == self._asked).mean())
        return self._ask(), reward, self._time == LENGTH, False, {}

    def _ask(self) -> np.ndarray:
        counts = self.action_space.nvec
        self._asked = self.np_random.integers(counts)
        return np.eye(counts[0], dtype=np.float32)[self._asked].ravel()


gymnasium.register("tests/Locks-v0", Locks, disable_env_checker=True)
