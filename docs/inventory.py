"""A shop that orders each evening what arrives two evenings later: docs/your-environment.md.

    python docs/inventory.py

plays two rules that a shop would use, and says what each is worth with its best number.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

DAYS = 84
DEMAND = np.array([12.0, 12.0, 14.0, 16.0, 26.0, 34.0, 8.0])  # mean of each weekday, Monday first
MARGIN, HOLDING, FIXED = 4.0, 0.35, 12.0  # for one sold; for one kept overnight; for each delivery
LOT, LOTS = 8, 8  # orders are 0, 8, 16, … 56


class Shop(gymnasium.Env):
    """Observes stock, the two deliveries on their way and the weekday; pays the day's profit."""

    def __init__(self, season: float = 1.0):
        """`season` is a factor of the demand."""
        self._demand = season * DEMAND
        self.observation_space = gymnasium.spaces.Box(0.0, 200.0, (10,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(LOTS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """Begins on a Monday, with stock for three days."""
        super().reset(seed=seed)
        self.day, self.stock, self.coming = 0, 40, [16, 16]
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """A day: what was ordered two evenings ago arrives, people buy, and `action` is ordered."""
        self.stock += self.coming.pop(0)
        self.coming.append(LOT * int(action))
        wanted = self.np_random.poisson(self._demand[self.day % 7])
        sold = min(wanted, self.stock)
        self.stock -= sold
        self.day += 1
        profit = MARGIN * sold - HOLDING * self.stock - FIXED * (action > 0)
        return self._observation(), profit / 10.0, False, self.day == DAYS, {}

    def expected(self) -> float:
        """Mean demand until an order of this evening arrives."""
        return float(sum(self._demand[(self.day + ahead) % 7] for ahead in range(3)))

    def _observation(self) -> np.ndarray:
        amounts = np.array([self.stock, *self.coming]) / 40
        return np.concatenate([amounts, np.eye(7)[self.day % 7]]).astype(np.float32)


def play(level: Callable[[Shop], float], episodes: int = 200) -> float:
    """The mean return of ordering what stock and orders together lack to a level."""
    env, total = Shop(), 0.0
    for episode in range(episodes):
        env.reset(seed=10_000 + episode)
        is_over = False
        while not is_over:
            missing = level(env) - env.stock - sum(env.coming)
            action = min(max(round(missing / LOT), 0), LOTS - 1)
            _, reward, _, is_over, _ = env.step(action)
            total += reward
    return total / episodes


if __name__ == "__main__":
    fixed = {level: play(lambda _, level=level: level) for level in range(40, 161, 8)}
    days = {
        factor: play(lambda shop, factor=factor: factor * shop.expected())
        for factor in np.arange(0.8, 2.01, 0.1)
    }
    best = max(fixed, key=fixed.__getitem__)
    print(f"order up to {best}: {fixed[best]:.1f} a season")
    best = max(days, key=days.__getitem__)
    print(f"order up to {best:.1f} times what three days need: {days[best]:.1f} a season")
