"""Programs whose environment is compiled with what learns (Lu et al. 2022, PureJaxRL)."""

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from protocol import Act
from rates import Rates, judge

State = Any  # a tree of arrays


class Network(nn.Module):
    """Layers of ReLUs, with layer normalisation or without."""

    actions: int
    hidden: tuple[int, ...]
    layer_norm: bool = False

    @nn.compact
    def __call__(self, values: jax.Array) -> jax.Array:
        for units in self.hidden:
            values = nn.Dense(units)(values)
            values = nn.relu(nn.LayerNorm()(values) if self.layer_norm else values)
        return nn.Dense(self.actions)(values)


class Environments:
    """So many of gymnax's environments.

    Args:
        env_id: a name that gymnax knows.
        count: environments side by side.
    """

    def __init__(self, env_id: str, count: int) -> None:
        self._environment, self._parameters = gymnax.make(env_id)
        self.count = count
        self.actions = int(self._environment.num_actions)
        self.shape = self._environment.observation_space(self._parameters).shape

    def reset(self, key: jax.Array) -> tuple[jax.Array, State]:
        """Observations [environments, …], and the environments."""
        keys = jax.random.split(key, self.count)
        return jax.vmap(self._environment.reset, (0, None))(keys, self._parameters)

    def step(self, key: jax.Array, state: State, actions: jax.Array) -> tuple[Any, ...]:
        """Observations, environments, rewards, 1 where an episode ended."""
        keys = jax.random.split(key, self.count)
        step = jax.vmap(self._environment.step, (0, 0, 0, None))
        observations, state, rewards, ended, cut, _ = step(keys, state, actions, self._parameters)
        return observations, state, rewards, (ended | cut).astype(jnp.float32)


def explore(key: jax.Array, values: jax.Array, share: jax.Array) -> jax.Array:
    """The best actions, but for a share that is random.

    Args:
        key: of what is random.
        values: of actions [environments, actions].
        share: of random actions.
    """
    which, what = jax.random.split(key)
    count, actions = values.shape
    others = jax.random.randint(what, (count,), 0, actions)
    return jnp.where(jax.random.uniform(which, (count,)) < share, others, values.argmax(axis=1))


def run(
    options: argparse.Namespace,
    network: Network,
    start: Callable[[jax.Array], State],
    advance: Callable[[State], State],
    steps: int,
    counts: Callable[[int], int],
) -> None:
    """Trains until what was asked for is there.

    Args:
        options: of `arguments`.
        network: what acts with `state["online"]`.
        start: the state of a run, from a key.
        advance: some steps of the run: environment, replay and updates.
        steps: so many environment steps they are.
        counts: how many updates were made by this environment step.
    """
    begun = time.time()
    often = max(1, -(-(2000 if options.rate_seconds else options.eval_period) // steps))

    def many(state: State) -> State:
        return jax.lax.scan(lambda each, _: (advance(each), None), state, length=often)[0]

    state = jax.jit(start)(jax.random.PRNGKey(options.seed))
    compiled = jax.jit(many, donate_argnums=0).lower(state).compile()
    greedy = jax.jit(lambda parameters, seen: network.apply(parameters, seen).argmax(axis=1))

    def act(parameters: State, observations: np.ndarray) -> np.ndarray:
        return np.asarray(greedy(parameters, observations))

    def acting(parameters: State) -> Act:
        return functools.partial(act, parameters)

    jax.block_until_ready(state)
    # All is compiled before the first environment step: seconds from the command have it.
    protocol = judge(options, time.time() - begun)
    env_steps = 0
    while env_steps < options.env_steps:
        state = jax.block_until_ready(compiled(state))
        env_steps += often * steps
        # The next call takes the state's memory.
        online = jax.tree.map(np.array, state["online"])
        if protocol.due(env_steps) and protocol.evaluate(
            env_steps, counts(env_steps), acting(online), functools.partial(_same, online)
        ):
            break
    if isinstance(protocol, Rates) and "replay" in state:
        kept = jax.tree.leaves(state["replay"])
        protocol.end(acting, sum(each.nbytes for each in kept) / kept[0].shape[0])
    else:
        protocol.end(acting)


def _same(parameters: State) -> State:
    return parameters
