"""Wrappers of somebody's own around environments' own vector forms."""

import gymnasium
import numpy as np


class DoubledVector(gymnasium.vector.VectorRewardWrapper):
    """Rewards twice as high."""

    def rewards(self, rewards: np.ndarray) -> np.ndarray:
        return 2 * rewards


class HalfAsHigh(gymnasium.vector.VectorWrapper):
    """Images without their lower half."""

    def __init__(self, env: gymnasium.vector.VectorEnv):
        super().__init__(env)
        whole = env.single_observation_space
        assert isinstance(whole, gymnasium.spaces.Box)
        self._rows = whole.shape[1] // 2
        self.single_observation_space = gymnasium.spaces.Box(
            0, 255, (whole.shape[0], self._rows, *whole.shape[2:]), np.uint8
        )
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, env.num_envs
        )

    def reset(self, **kwargs):
        observations, infos = self.env.reset(**kwargs)
        return observations[:, :, : self._rows], infos

    def step(self, actions):
        observations, *rest = self.env.step(actions)
        return observations[:, :, : self._rows], *rest


class FailsAround(gymnasium.vector.VectorWrapper):
    """Cannot be put around anything."""

    def __init__(self, env: gymnasium.vector.VectorEnv):
        raise ValueError("no such vector")


class FramesLast(gymnasium.vector.VectorWrapper):
    """Its stacks of images are [height, width, frames]."""

    def __init__(self, env: gymnasium.vector.VectorEnv):
        """Moves the frames' axis."""
        super().__init__(env)
        space = env.single_observation_space
        shape = (*space.shape[1:], space.shape[0])
        self.single_observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, env.num_envs
        )
