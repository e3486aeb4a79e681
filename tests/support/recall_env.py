"""A toy that has to be remembered; `--env_module=support.recall_env` registers it."""

from typing import Any

import gymnasium
import numpy as np

LENGTH = 3  # steps of an episode


class Recall(gymnasium.Env):
    """Shows one of two things as it begins, then nothing; the last action is to name it.

    +1 for the right name and -1 for the other, so that whoever forgets has 0 in the mean.
    """

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (LENGTH + 1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._time, self._shown = 0, int(self.np_random.integers(2))
        return self._observation(), {}

    def step(self, action: int):
        self._time += 1
        is_over = self._time == LENGTH
        reward = (1.0 if action == self._shown else -1.0) if is_over else 0.0
        return self._observation(), reward, is_over, False, {}

    def _observation(self) -> np.ndarray:
        """What is shown, at first alone, and the time."""
        seen = np.zeros(LENGTH + 1, np.float32)
        seen[LENGTH] = self._time / LENGTH
        if self._time == 0:
            seen[self._shown] = 1
        return seen


gymnasium.register("tests/Recall-v0", entry_point=Recall)
