"""A rod with a weak motor at its foot, to be swung up and held there."""

import math
from typing import Any

import gymnasium
import numpy as np

STEPS, SECONDS = 200, 0.05
GRAVITY, LENGTH, FRICTION = 9.81, 1.0, 0.02
TORQUES = (-5.0, -2.0, 0.0, 2.0, 5.0)  # half of what lifts it from the side, at most


class Swing(gymnasium.Env):
    """Shows degrees from upright and degrees per second; costs the tip's depth in centimetres."""

    action_space = gymnasium.spaces.Discrete(len(TORQUES))
    observation_space = gymnasium.spaces.Box(
        np.array([-180.0, -2000.0]), np.array([180.0, 2000.0]), dtype=np.float64
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._time = 0
        self._angle = math.remainder(math.pi + self.np_random.uniform(-0.5, 0.5), 2 * math.pi)
        self._speed = self.np_random.uniform(-1, 1)
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        pull = GRAVITY / LENGTH * math.sin(self._angle)
        self._speed += SECONDS * (pull + TORQUES[action] - FRICTION * self._speed)
        self._angle = math.remainder(self._angle + SECONDS * self._speed, 2 * math.pi)
        self._time += 1
        depth = 100 * LENGTH * (1 - math.cos(self._angle))
        return self._observation(), -depth, False, self._time >= STEPS, {}

    def rule(self) -> int:
        """Pumps with the swing until there is enough of it, then holds it upright."""
        height = LENGTH * (1 + math.cos(self._angle))
        energy = self._speed**2 / 2 + GRAVITY * height
        if abs(self._angle) < 0.35:
            wanted = -25.0 * self._angle - 6.0 * self._speed
        else:
            wanted = math.copysign(5.0, self._speed) * (energy < 2.02 * GRAVITY * LENGTH)
        return int(np.argmin(np.abs(np.array(TORQUES) - wanted)))

    def _observation(self) -> np.ndarray:
        return np.degrees([self._angle, self._speed])
