"""An environment that allows some of its actions only, and fails where another one is taken.

It observes [episode, time]; action a is allowed at a time t where a + t is even, none where an
episode is over. It says so in its infos, or by a method.
"""

from typing import Any

import gymnasium
import numpy as np

LENGTH, ACTIONS = 3, 10  # so that a mask's bits take more than a byte


def allowed(time: int) -> np.ndarray:
    """At a time, bool [A]; all where it allows nothing."""
    return np.array([time >= LENGTH or (action + time) % 2 == 0 for action in range(ACTIONS)])


class Forbidding(gymnasium.Env):
    """Pays 1 for each step; raises where an action is not allowed."""

    def __init__(self, size: int = ACTIONS, says: bool = True):
        self.observation_space = gymnasium.spaces.Box(0, 1000, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS, start=5)
        self.size, self.says, self.episode, self.time = size, says, -1, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        if not allowed(self.time)[action - 5]:
            raise ValueError(f"action {action} at time {self.time}")
        self.time += 1
        over, terminates = self.time == LENGTH, self.episode % 2 == 0
        return self._observation(), 1.0, over and terminates, over and not terminates, self._info()

    def _observation(self) -> np.ndarray:
        return np.array([self.episode, self.time], np.float32)

    def _mask(self) -> np.ndarray:
        return allowed(self.time)[: self.size] & (self.time < LENGTH)

    def _info(self) -> dict:
        return {"action_mask": self._mask().astype(np.int8)} if self.says else {}


class ByMethod(Forbidding):
    """Says so by a method, as a list."""

    def action_masks(self) -> list[bool]:
        return self._mask().tolist()

    def _info(self) -> dict:
        return {}


gymnasium.register("TestMasks/Infos-v0", Forbidding, disable_env_checker=True)
gymnasium.register("TestMasks/Method-v0", ByMethod, disable_env_checker=True)
SMALL = {
    "num_envs_per_worker": 2,
    "update_period": 1,
    "local_updates": 2,
    "batch_size": 8,
    "n_step": 2,
    "replay_capacity": 200,
    "min_replay_size": 12,
    "hidden_sizes": (8,),
    "jit_compile": "none",
}
