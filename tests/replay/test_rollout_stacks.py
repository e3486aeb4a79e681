"""Rollouts of stacked frames: an image of as many channels that come first is no stack."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor


class Colours(gymnasium.Env):
    """Shows three numbers of an image, as its channels or as the last three of one."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 255, (3, 4, 4), np.uint8)

    def __init__(self, slides: bool):
        self._slides = slides

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(**kwargs)
        self._time = 0
        return self._shown(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._time += 1
        return self._shown(), 1.0, self._time == 5, False, {}

    def _shown(self) -> np.ndarray:
        numbers = self._time * (1 if self._slides else 3) + np.arange(3)
        return np.broadcast_to(numbers[:, None, None], (3, 4, 4)).astype(np.uint8)


def play(slides: bool) -> None:
    values = {"env_id": f"{__name__}:Colours", "env_kwargs": f'{{"slides": {str(slides).lower()}}}'}
    options = {"replay": "rollout", "target_update_period": 0, "n_step": 1, "frame_stack": 3}
    options |= {"double_dqn": False}
    actor = Actor(Config.from_values({**values, **options, "num_envs": 2}), worker=0)
    for _ in range(12):
        actor.step(Acted(np.zeros(2, np.int32), np.zeros((2, 0), np.float32)), 0.0)


def test_stacks_are_taken() -> None:
    play(slides=True)


def test_channels_are_refused() -> None:
    with pytest.raises(UsageError, match="--frame_stack=3: in environment 0 an observation is not"):
        play(slides=False)
