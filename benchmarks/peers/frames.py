"""Atari games for programs that are written here, as DQN sees them (Mnih et al. 2015)."""

import ale_py
import gymnasium
import numpy as np
from gymnasium.wrappers import (
    AtariPreprocessing,
    ClipReward,
    FrameStackObservation,
)

gymnasium.register_envs(ale_py)


def make(env_id: str) -> gymnasium.Env[np.ndarray, int]:
    """Four frames a step, 84 × 84, the last four of them stacked, rewards cut to -1 … 1."""
    environment = gymnasium.make(env_id, frameskip=1, repeat_action_probability=0.0)
    environment = AtariPreprocessing(environment, noop_max=30, terminal_on_life_loss=True)
    return ClipReward(FrameStackObservation(environment, 4), -1, 1)
