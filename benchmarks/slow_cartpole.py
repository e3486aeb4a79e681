"""CartPole that takes its time: `--env_module=slow_cartpole --env_id=SlowCartPole-v1`.

Run with `PYTHONPATH=benchmarks`, so that every task finds this module.

A step of each environment takes `step_seconds` more, in which the processor is free, as if a
simulator or a device were waited for: 3 ms if nothing is said, so 200 ms for a step of 64. So what
limits a training is its environments, also where many workers share few cores.
`--eval_env_kwargs='{"step_seconds": 0}'` does without in evaluations.
"""

import functools
import time
from typing import Any

import gymnasium
from gymnasium.envs.classic_control import cartpole

STEP_SECONDS = 0.2 / 64


class Slow(cartpole.CartPoleVectorEnv):
    """Many that are stepped together, one after the other."""

    def __init__(self, num_envs: int, step_seconds: float = STEP_SECONDS, **kwargs: Any):
        super().__init__(num_envs, **kwargs)
        self._step_seconds = step_seconds

    def step(self, action):
        time.sleep(self.num_envs * self._step_seconds)
        return super().step(action)


def one(step_seconds: float = STEP_SECONDS, **kwargs: Any) -> gymnasium.Env:
    """A single environment."""
    return OneSlow(gymnasium.make("CartPole-v1", max_episode_steps=-1, **kwargs), step_seconds)


class OneSlow(gymnasium.Wrapper):
    """One environment."""

    def __init__(self, env: gymnasium.Env, step_seconds: float):
        super().__init__(env)
        self._step_seconds = step_seconds

    def step(self, action):
        time.sleep(self._step_seconds)
        return super().step(action)


gymnasium.register(
    "SlowCartPole-v1",
    entry_point=one,
    vector_entry_point=functools.partial(Slow, max_episode_steps=500),
    max_episode_steps=500,
    reward_threshold=475.0,
)
