"""Traffic lights at a crossing of two roads, whose traffic comes and goes."""

from typing import Any

import gymnasium
import numpy as np

STEPS, YELLOW, LONGEST = 240, 2, 60


class Crossing(gymnasium.Env):
    """Costs a tenth for each car that waits, each step; two cars pass a green light in a step."""

    action_space = gymnasium.spaces.Discrete(2)  # stay, or change
    observation_space = gymnasium.spaces.Box(0, 1000, (4,), np.int64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._time, self._green, self._yellow, self._since = 0, 0, 0, 0
        self._waiting = self.np_random.integers(0, 10, 2)
        self._busy = self.np_random.uniform(0.2, 0.8)
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if action == 1 and not self._yellow:
            self._green, self._yellow, self._since = 1 - self._green, YELLOW + 1, 0
        if self._time % 60 == 0:
            self._busy = self.np_random.uniform(0.1, 0.9)
        arrivals = self.np_random.poisson([1.1 * self._busy, 1.1 * (1 - self._busy)])
        self._waiting = np.minimum(self._waiting + arrivals, LONGEST)
        self._yellow = max(self._yellow - 1, 0)
        if not self._yellow:
            self._waiting[self._green] = max(self._waiting[self._green] - 2, 0)
        self._time, self._since = self._time + 1, self._since + 1
        reward = -float(self._waiting.sum()) / 10
        return self._observation(), reward, False, self._time >= STEPS, {}

    def rule(self) -> int:
        """Changes when the road that waits has more cars than the other, and some."""
        own, other = self._waiting[self._green], self._waiting[1 - self._green]
        return int(not self._yellow and other > own + 4)

    def _observation(self) -> np.ndarray:
        return np.array([*self._waiting, self._green, self._yellow])
