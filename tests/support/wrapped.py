"""Wrappers of somebody's own, and what is none."""

import sys

import gymnasium
import numpy as np


class Doubled(gymnasium.RewardWrapper):
    """Rewards twice as high."""

    def reward(self, reward: float) -> float:
        return 2 * reward


def plus_one(env: gymnasium.Env) -> gymnasium.Env:
    """Rewards higher by one."""
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 1)


class Fails(gymnasium.ActionWrapper):
    """Fails at action 2."""

    def action(self, action: np.ndarray) -> np.ndarray:
        assert action != 2, "no such way"
        return action


class Leaves(gymnasium.Wrapper):
    """Ends the program rather than be put around anything."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        sys.exit(3)


NOTHING = 3
