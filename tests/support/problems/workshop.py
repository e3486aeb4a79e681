"""A workshop that chooses which of the jobs in its tray comes next."""

from typing import Any

import gymnasium
import numpy as np

PLACES, STEPS = 5, 60


class Workshop(gymnasium.Env):
    """Costs a job's weight for each hour that it is late, when it is done; a full tray is closed.

    An empty place of the tray is no choice, unless all are: then an hour passes.
    """

    action_space = gymnasium.spaces.Discrete(PLACES)
    observation_space = gymnasium.spaces.Box(-1000, 1000, (PLACES, 3), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._time = 0
        self._jobs = np.zeros((PLACES, 3))  # hours of work, hours until it is due, weight
        for _ in range(3):
            self._take_in()
        return self._observation()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        work, due, weight = self._jobs[action]
        hours = max(work, 1.0)
        reward = -weight * max(hours - due, 0.0) / 10 if work else 0.0
        self._jobs[action] = 0
        self._jobs[self._jobs[:, 0] > 0, 1] -= hours
        for _ in range(self.np_random.poisson(hours / 3.2)):
            self._take_in()
        self._time += 1
        observation, info = self._observation()
        return observation, reward, False, self._time >= STEPS, info

    def rule(self) -> int:
        """The job that pays most for each hour of work, as late as it would be."""
        work, due, weight = self._jobs.T
        urgency = weight / np.maximum(work, 1) * np.exp(-np.maximum(due - work, 0) / 6)
        return int(np.where(work > 0, urgency, -1).argmax())

    def _take_in(self) -> None:
        free = np.flatnonzero(self._jobs[:, 0] == 0)
        if free.size:
            work = self.np_random.integers(1, 6)
            due = work + self.np_random.uniform(0, 15)
            self._jobs[free[0]] = work, due, self.np_random.choice([1, 4])

    def _observation(self) -> tuple[np.ndarray, dict[str, Any]]:
        mask = (self._jobs[:, 0] > 0).astype(np.int8)
        return self._jobs.astype(np.float32), {"action_mask": mask}
