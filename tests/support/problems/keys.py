"""A floor with a key somewhere and a door in a corner, and a wall with a gap between them."""

from typing import Any

import gymnasium
import numpy as np

SIZE, STEPS, GAP = 7, 60, 3
WALL = SIZE // 2  # the column of the wall, which is open in row GAP
DOOR = np.array([SIZE - 1, SIZE - 1])
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # row and column


class Keys(gymnasium.Env):
    """Pays 100 for a door that is opened with the key, 10 for the key, and costs 1 a step."""

    action_space = gymnasium.spaces.Discrete(len(MOVES))
    # Rows and columns of oneself and the key; and whether the key is in the hand.
    observation_space = gymnasium.spaces.MultiDiscrete([SIZE] * 4 + [2])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._time, self._has_key = 0, 0
        places = [np.array([row, column]) for row in range(SIZE) for column in range(WALL)]
        chosen = self.np_random.choice(len(places), 2, replace=False)
        self._self, self._key = (places[each] for each in chosen)
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        there = np.clip(self._self + MOVES[action], 0, SIZE - 1)
        if there[1] != WALL or there[0] == GAP:
            self._self = there
        self._time += 1
        reward, is_open = -1.0, False
        if not self._has_key and (self._self == self._key).all():
            self._has_key, reward = 1, 9.0
        elif self._has_key and (self._self == DOOR).all():
            is_open, reward = True, 99.0
        return self._observation(), reward, is_open, self._time >= STEPS, {}

    def rule(self) -> int:
        """The shortest way, by the gap where the wall is between."""
        goal = DOOR if self._has_key else self._key
        if (self._self[1] - WALL) * (goal[1] - WALL) < 0:
            goal = np.array([GAP, WALL])
        down, right = goal - self._self
        if down and self._self[1] != WALL:
            return 2 if down > 0 else 0
        return 1 if right > 0 else 3

    def _observation(self) -> np.ndarray:
        return np.array([*self._self, *self._key, self._has_key])
