"""An environment that pays the action it is given, so that rewards tell which actions were taken.

It observes [episode, time] and ends after four steps.
"""

from typing import Any

import gymnasium
import numpy as np

LENGTH = 4
ACTIONS = 3


class Paying(gymnasium.Env):
    """Pays the action taken; `longer` makes environment i of a vector last i steps longer."""

    closed = 0

    def __init__(self, longer: bool = False):
        self.observation_space = gymnasium.spaces.Box(0, 1000, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.longer, self.length, self.episode, self.time = longer, LENGTH, -1, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            # A vector environment seeds its environments seed, seed + 1, …
            self.length = LENGTH + (seed % 10 if self.longer else 0)
            self.episode = -1
        self.episode, self.time = self.episode + 1, 0
        return np.array([self.episode, 0], np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.time += 1
        observation = np.array([self.episode, self.time], np.float32)
        return observation, float(action), self.time == self.length, False, {}

    def close(self) -> None:
        Paying.closed += 1


gymnasium.register("TestExperience/Paying-v0", Paying, disable_env_checker=True)

SMALL = {
    "env_id": "TestExperience/Paying-v0",
    "num_envs_per_worker": 2,
    "update_period": 1,
    "local_updates": 2,
    "batch_size": 8,
    "n_step": 1,
    "replay_capacity": 200,
    "min_replay_size": 12,
    "gamma": 0.9,
    "eval_epsilon": 0.0,
    "max_eval_steps": 1000,
}
