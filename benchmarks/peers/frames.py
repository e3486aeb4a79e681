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


def make(env_id: str, scored: bool = False) -> gymnasium.Env[np.ndarray, int]:
    """Four frames a step, 84 × 84, the last four of them stacked.

    Args:
        env_id: of the game.
        scored: rewards and episodes are the game's own. Else rewards are cut to -1 … 1, and a lost
            life ends an episode.
    """
    environment = gymnasium.make(env_id, frameskip=1, repeat_action_probability=0.0)
    environment = AtariPreprocessing(environment, noop_max=30, terminal_on_life_loss=not scored)
    stacked = FrameStackObservation(environment, 4)
    return stacked if scored else ClipReward(stacked, -1, 1)
