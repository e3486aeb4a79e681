"""What an environment says in its infos is its own: of all that, masks alone are looked at."""

import json
from typing import Any

import gymnasium
import numpy as np
import pytest

from ps_dqn.config import Environment
from ps_dqn.environments import Environments

LENGTH = 4
SAYS = {
    "arrays of several lengths": lambda time: np.arange(1 + time),
    "nothing, and then a number": lambda time: None if time < LENGTH else time,
    "a number, and then a list": lambda time: float(time) if time < 3 else [time],
}


class Talks(gymnasium.Env):
    """Episodes of four steps, and another of two in every other environment."""

    observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self, says: str):
        self._says = SAYS[says]
        Talks.made += 1
        self._ahead = 2 * (Talks.made % 2)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, Any]:
        super().reset(**kwargs)
        self._time, self._ahead = self._ahead, 0
        return self._shown()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, Any]:
        self._time += 1
        observation, info = self._shown()
        return observation, 1.0, self._time == LENGTH, False, info

    def _shown(self) -> tuple[np.ndarray, Any]:
        observation = np.array([self._time], np.float32)
        mask = np.array([True, self._time % 2 == 0])
        return observation, {"said": self._says(self._time), "action_mask": mask}


@pytest.mark.parametrize("vectorization", ["auto", "async"])
@pytest.mark.parametrize("says", SAYS)
def test_it_may_be_anything(says: str, vectorization: str) -> None:
    kwargs = json.dumps({"says": says})
    options = Environment(
        env_id=f"{__name__}:Talks", env_kwargs=kwargs, vectorization=vectorization
    )
    envs = Environments(options, 3)
    envs.reset(0)
    transitions = 0
    for _ in range(15):
        step = envs.step(np.zeros(3, np.int64))
        transitions += int(step.is_transition.sum())
        assert (envs.masks[:, 1] == (envs.observations[:, 0] % 2 == 0)).all()
    envs.close()
    assert not any(envs.failures.values())
    assert transitions == 3 * 12  # the others are resets
