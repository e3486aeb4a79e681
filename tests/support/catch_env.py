"""Toy environments for the tests; `--env_module=support.catch_env` registers them."""

from typing import Any

import gymnasium
import numpy as np

SIZE = 5
# A run that learns it within seconds.
FLAGS = (
    "--cluster=in_process",
    "--num_workers=1",
    "--env_module=support.catch_env",
    "--env_id=tests/Catch-v0",
    "--hidden_sizes=32,32",
    "--jit_compile=none",
    "--num_envs_per_worker=8",
    "--local_updates=16",
    "--target_update_period=100",
    "--eval_episodes=20",
)


class Catch(gymnasium.Env):
    """A ball falls, a paddle moves below it: +1 if it is caught, -1 if not.

    The paddle can reach every column in time, so the best mean return is 1.
    """

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (SIZE * SIZE,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._row, self._column = 0, int(self.np_random.integers(SIZE))
        self._paddle = SIZE // 2
        return self._observation(), {}

    def step(self, action: int):
        self._paddle = int(np.clip(self._paddle + action - 1, 0, SIZE - 1))
        self._row += 1
        landed = self._row == SIZE - 1
        reward = (1.0 if self._paddle == self._column else -1.0) if landed else 0.0
        return self._observation(), reward, landed, False, {}

    def _observation(self) -> np.ndarray:
        grid = np.zeros((SIZE, SIZE), np.float32)
        grid[self._row, self._column] = 1
        grid[SIZE - 1, self._paddle] = 1
        return grid.ravel()


class Burst(Catch):
    """A Catch whose fourth step fails."""

    def step(self, action: int):
        if self._row == 3:
            raise RuntimeError("the ball burst")
        return super().step(action)


gymnasium.register("tests/Catch-v0", entry_point=Catch)
gymnasium.register("tests/Burst-v0", entry_point=Burst)
