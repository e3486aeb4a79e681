"""Stacks of frames around an environment's own vector form, as Gymnasium makes of single ones.

Shapes: E environments, k frames.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space


class StackedVector(VectorWrapper):
    """Observations are the newest frames of an episode, whose first one stands for those before.

    However the vector resets, no stack has frames of two episodes.
    """

    def __init__(self, env: VectorEnv, frames: int):
        """Stacks what a vector observes.

        Args:
            env: whose observations are arrays.
            frames: k.
        """
        super().__init__(env)
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        one: Any = env.single_observation_space
        low, high = (np.repeat(bound[None], frames, axis=0) for bound in (one.low, one.high))
        self.single_observation_space = gymnasium.spaces.Box(low, high, dtype=one.dtype)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._stacks = np.zeros(self.observation_space.shape or (), one.dtype)
        self._begins = np.zeros(env.num_envs, np.bool_)  # whose next observation is a reset's

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins episodes: all, or those that `reset_mask` in the options says."""
        observations, infos = self.env.reset(seed=seed, options=options)
        begins = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)))
        self._stacks = self._stacks.copy()
        self._stacks[begins] = np.asarray(observations)[begins, None]
        self._begins = np.zeros(self.num_envs, np.bool_)
        return self._stacks, infos

    def step(self, actions: Any) -> tuple[np.ndarray, Any, Any, Any, dict[str, Any]]:
        """Acts."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        newest = np.asarray(observations)[:, None]
        ended, begins = np.asarray(terminated) | np.asarray(truncated), self._begins
        moved = np.concatenate([self._stacks[:, 1:], newest], axis=1)
        self._begins = np.zeros(self.num_envs, np.bool_)
        if self._mode == AutoresetMode.NEXT_STEP:
            self._begins = ended
        elif self._mode == AutoresetMode.SAME_STEP and ended.any():
            begins = ended
            if "final_obs" in infos:  # whoever reads them refuses a vector without
                final = moved.copy()
                final[ended, -1] = np.stack(list(infos["final_obs"][ended]))
                infos = {**infos, "final_obs": final}
        moved[begins] = newest[begins]
        self._stacks = moved
        return moved, rewards, terminated, truncated, infos
