"""A room to be kept at 21 °C through a winter's day, with a heater of three steps."""

import math
from typing import Any

import gymnasium
import numpy as np

STEPS = 96  # quarters of an hour
WANTED, POWER, LOSS, INERTIA = 21.0, 8.0, 0.25, 0.2


class Room(gymnasium.Env):
    """Costs a degree's deviation and what the heater burns, each quarter of an hour."""

    action_space = gymnasium.spaces.Discrete(3)
    observation_space = gymnasium.spaces.Box(-50, 50, (4,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._time, self._heater = 0, 0.0
        self._inside = self.np_random.uniform(15, 23)
        self._cold = self.np_random.uniform(-8, 6)
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        # The heater takes its time to warm up and to cool down.
        self._heater += 0.5 * (action / 2 - self._heater)
        gain = POWER * self._heater - LOSS * (self._inside - self._outside())
        self._inside += INERTIA * gain + self.np_random.normal(0, 0.1)
        self._time += 1
        reward = -abs(self._inside - WANTED) - 0.3 * action
        return self._observation(), reward, False, self._time >= STEPS, {}

    def rule(self) -> int:
        """What a switch does."""
        return 2 * (self._inside < WANTED)

    def _outside(self) -> float:
        return self._cold + 4 * math.sin(2 * math.pi * (self._time / STEPS - 0.3))

    def _observation(self) -> np.ndarray:
        return np.array([self._inside, self._outside(), self._time / 4, self._heater])
