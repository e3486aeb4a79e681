"""An environment whose evaluations wait at a gate: training goes on past it."""

import inspect
import os
import pathlib
import time
from typing import Any

import gymnasium
import numpy as np


class Gated(gymnasium.Env):
    """Episodes of ten steps that pay for each; of an evaluation none ends while the gate is shut.

    Who waits there leaves a file of its process's number beside it.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, gate: str):
        self._gate = pathlib.Path(gate)
        self._is_played = any(each.function == "_evaluate_begin" for each in inspect.stack())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        while self._is_played and self._gate.exists():
            self._gate.with_name(f"{os.getpid()}.waits").touch()
            time.sleep(0.05)
        return self._observe(), 1.0, self._steps == 10, False, {}

    def _observe(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


gymnasium.register("tests/Gated-v0", Gated, disable_env_checker=True)
