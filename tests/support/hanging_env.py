"""An environment that hangs: in the process that takes a mark away, or where it is told to."""

import pathlib
import time
from typing import Any

import gymnasium
import numpy as np

STEPS_BEFORE = 500
# When environments of this process have begun to hang (`time.monotonic()`).
since: list[float] = []


class Hanging(gymnasium.Env):
    """Episodes of ten steps that pay for each."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, mark: str = "", hangs_in: str = ""):
        self._mark, self._steps, self._hangs_in = pathlib.Path(mark), 0, hangs_in
        self._hang("__init__")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._hang("reset")
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._steps > STEPS_BEFORE and self._takes_the_mark():
            since.append(time.monotonic())
            time.sleep(10_000)
        return self._observe(), 1.0, self._steps % 10 == 0, False, {}

    def _hang(self, where: str) -> None:
        if where == self._hangs_in:
            since.append(time.monotonic())
            time.sleep(10_000)

    def _takes_the_mark(self) -> bool:
        try:
            self._mark.unlink()
        except OSError:
            return False
        return True

    def _observe(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


gymnasium.register("Hanging-v0", Hanging)
