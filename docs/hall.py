"""A cart that fetches parcels in a hall, and has to mind its battery: docs/your-environment.md.

    python docs/hall.py

plays the rule that a cart would have, and says what it is worth.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SIZE, STEPS, BATTERY = 5, 100, 30
DOCK = np.array([0, 2])
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # row and column


class Picker(gymnasium.Env):
    """Pays 1 for each parcel that is brought to the dock, where the cart is charged too."""

    def __init__(self) -> None:
        """An observation has three parts."""
        self.action_space = spaces.Discrete(len(MOVES))
        self.observation_space = spaces.Dict(
            {
                "hall": spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8),  # cart, goal, dock
                "battery": spaces.Box(0, BATTERY, (1,), np.float32),
                "carries": spaces.Discrete(2),
            }
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        """Begins with a full battery somewhere in the hall."""
        super().reset(seed=seed)
        self._time, self._battery, self._carries = 0, BATTERY, False
        self._cart, self._parcel = self._somewhere(), self._somewhere()
        return self._observation(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        """Moves by one; an empty battery ends the episode."""
        self._cart = np.clip(self._cart + MOVES[action], 0, SIZE - 1)
        self._battery -= 1
        self._time += 1
        reward = 0.0
        if (self._cart == DOCK).all():
            self._battery = BATTERY
            if self._carries:
                reward, self._carries, self._parcel = 1.0, False, self._somewhere()
        elif (self._cart == self._parcel).all():
            self._carries = True
        is_empty = self._battery == 0
        return self._observation(), reward, is_empty, self._time >= STEPS, {}

    def rule(self) -> int:
        """The way to the parcel; or to the dock, with it or with a battery that is low."""
        way = np.abs(self._cart - self._parcel).sum() + np.abs(self._parcel - DOCK).sum()
        down, right = (DOCK if self._carries or self._battery < way else self._parcel) - self._cart
        if down:
            return 2 if down > 0 else 0
        return 1 if right > 0 else 3

    def _somewhere(self) -> np.ndarray:
        """Anywhere but at the dock."""
        place = self.np_random.integers(SIZE * SIZE - 1)
        place += place >= DOCK[0] * SIZE + DOCK[1]
        return np.array(divmod(place, SIZE))

    def _observation(self) -> dict[str, Any]:
        hall = np.zeros((SIZE, SIZE, 3), np.uint8)
        goal = DOCK if self._carries else self._parcel
        for plane, (row, column) in enumerate((self._cart, goal, DOCK)):
            hall[row, column, plane] = 255
        battery = np.array([self._battery], np.float32)
        return {"hall": hall, "battery": battery, "carries": int(self._carries)}


def play(episodes: int = 200) -> float:
    """The mean return of the rule."""
    env, total = Picker(), 0.0
    for episode in range(episodes):
        env.reset(seed=10_000 + episode)
        is_over = False
        while not is_over:
            _, reward, terminated, truncated, _ = env.step(env.rule())
            total += reward
            is_over = terminated or truncated
    return total / episodes


if __name__ == "__main__":
    print(f"straight to the goal: {play():.1f} parcels")
