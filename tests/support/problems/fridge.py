"""A fish shop that orders every evening, for fish that keeps for three days."""

from typing import Any

import gymnasium
import numpy as np

DAYS, KEEPS, LOT, LOTS = 70, 3, 5, 13
WANTED = np.array([10, 14, 12, 16, 34, 30, 4])  # mean of each weekday, Monday first
PRICE, COST, WASTE = 9.0, 4.0, 1.0  # of a sold one, of a bought one, of one thrown away


class Fridge(gymnasium.Env):
    """Pays the day's profit; shows how many there are of each age, and the weekday."""

    action_space = gymnasium.spaces.Discrete(LOTS)
    observation_space = gymnasium.spaces.Box(0, 1000, (KEEPS + 1,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._day = 0
        self._fish = np.array([10, 0, 0])  # the freshest first
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        wanted = self.np_random.poisson(WANTED[self._day % 7])
        sold = min(int(wanted), int(self._fish.sum()))
        left = sold
        for age in reversed(range(KEEPS)):  # the oldest goes first
            taken = min(left, int(self._fish[age]))
            self._fish[age] -= taken
            left -= taken
        thrown = int(self._fish[-1])
        self._fish = np.array([LOT * action, *self._fish[:-1]])
        self._day += 1
        profit = PRICE * sold - COST * LOT * action - WASTE * thrown
        return self._observation(), profit, False, self._day == DAYS, {}

    def rule(self) -> int:
        """What tomorrow and a third of the day after will want, less what there is."""
        today, after = (WANTED[(self._day + ahead) % 7] for ahead in (0, 1))
        # The order of this evening arrives behind today's customers.
        left = max(self._fish[:-1].sum() - max(today - self._fish[-1], 0), 0)
        tomorrow = after + WANTED[(self._day + 2) % 7] / 3
        return int(np.clip(round((tomorrow - left) / LOT), 0, LOTS - 1))

    def _observation(self) -> np.ndarray:
        return np.array([*self._fish, self._day % 7], np.float64)
