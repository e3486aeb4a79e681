"""CartPole without its velocities: `--env_module=masked_cartpole --env_id=MaskedCartPole-v1`.

Run with `PYTHONPATH=benchmarks`, so that every task finds this module.

Where the cart and the pole are is seen, how fast they move is not, so one observation does not say
what to do; two or more do.
"""

import functools
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import cartpole
from gymnasium.wrappers import TransformObservation
from gymnasium.wrappers.vector import TransformObservation as TransformObservations

SEEN = [0, 2]  # position of the cart, angle of the pole


def one(**kwargs: Any) -> gymnasium.Env:
    """A single environment."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=-1, **kwargs)
    return TransformObservation(env, lambda observation: observation[SEEN], _seen(env))


def many(num_envs: int, **kwargs: Any) -> gymnasium.vector.VectorEnv:
    """Many that are stepped together."""
    env = cartpole.CartPoleVectorEnv(num_envs, **kwargs)
    return TransformObservations(
        env, lambda observations: observations[:, SEEN], _seen(env), _seen(env, single=True)
    )


def _seen(env: Any, single: bool = False) -> gymnasium.spaces.Box:
    space = env.single_observation_space if single else env.observation_space
    return gymnasium.spaces.Box(space.low[..., SEEN], space.high[..., SEEN], dtype=np.float32)


gymnasium.register(
    "MaskedCartPole-v1",
    entry_point=one,
    vector_entry_point=functools.partial(many, max_episode_steps=500),
    max_episode_steps=500,
    reward_threshold=475.0,
)
