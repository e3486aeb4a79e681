"""An environment that failed is another one afterwards, whatever is around it."""

import json
import pathlib
from typing import Any

import gymnasium
import numpy as np
import pytest

from ps_dqn import reproduce
from ps_dqn.config import Environment
from ps_dqn.environments import Environments, guard

AT = 5


class Breaks(gymnasium.Env):
    """Fails in its fifth step, and in every step afterwards."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    open = 0

    def __init__(self) -> None:
        self._steps = 0
        Breaks.open += 1

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(**kwargs)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._steps >= AT:
            raise RuntimeError("it is broken")
        return np.zeros(1, np.float32), float(action[0]), False, False, {}

    def close(self) -> None:
        Breaks.open -= 1


class Doubled(gymnasium.RewardWrapper):
    """A wrapper as people write them: Gymnasium could not make it again by itself."""

    def __init__(self, env: gymnasium.Env, by: float = 2.0):
        super().__init__(env)
        self._by = by

    def reward(self, reward: Any) -> float:
        return self._by * float(reward)


@pytest.mark.parametrize("wrappers", ["", f"{__name__}:Doubled"])
def test_another_takes_its_place(
    wrappers: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_written", 0)
    monkeypatch.setattr(Breaks, "open", 0)
    options = Environment(
        env_id=f"{__name__}:Breaks",
        env_wrappers=wrappers,
        env_kwargs=json.dumps({"vector_kwargs": {"autoreset_mode": "NextStep"}}),
        action_bins=3,
    )
    envs = Environments(options, 2, str(tmp_path))
    envs.reset(0)
    steps = [envs.step(np.full(2, 2)) for _ in range(18)]
    real = [bool(step.is_transition.all()) for step in steps]
    assert real == ([True] * (AT - 1) + [False, False]) * 3  # the failure, and the reset after it
    assert {float(step.rewards[0]) for step in steps if step.is_transition[0]} == {
        2.0 if wrappers else 1.0
    }
    assert envs.failures["raised"] == 6
    assert Breaks.open == 2
    envs.close()
    path = next(tmp_path.iterdir())
    assert reproduce.main(["reproduce", str(path)]) == 0
