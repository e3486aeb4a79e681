"""What a run says of continuous actions as it begins."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ps_dqn.config import Config
from ps_dqn.coordinator.checks import action_grid, first_look


class Continuous(gymnasium.Env):
    """Has nothing but actions."""

    def __init__(self, numbers: int = 1, whole: bool = False):
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        dtype = np.int64 if whole else np.float32
        self.action_space = spaces.Box(0, np.arange(1, numbers + 1, dtype=dtype), dtype=dtype)

    def reset(self, *, seed=None, options=None):  # type: ignore[no-untyped-def]
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):  # type: ignore[no-untyped-def]
        return np.zeros(1, np.float32), 0.0, False, False, {}


gymnasium.register("TestGrid/Continuous-v0", Continuous, disable_env_checker=True)


@pytest.mark.parametrize(
    ("kwargs", "bins", "said"),
    [
        ("{}", 11, "the action's number has 11 values"),
        ('{"numbers": 2}', 3, "each of the action's 2 numbers has 3 values"),
        ('{"numbers": 3, "whole": true}', 3, "each of the action's 3 numbers has 2 to 3 values"),
    ],
)
def test_it_says_what_a_grid_leaves_out(kwargs: str, bins: int, said: str) -> None:
    values = {"env_id": "TestGrid/Continuous-v0", "env_kwargs": kwargs, "action_bins": bins}
    config, environment = first_look.at_environment(Config.from_values(values))
    assert action_grid.notes(config, environment) == [
        f"--action_bins={bins}: {said}, its bounds among them, and none between them can be chosen"
    ]


def test_it_says_nothing_of_actions_that_are_a_list() -> None:
    config, environment = first_look.at_environment(Config())
    assert action_grid.notes(config, environment) == []
