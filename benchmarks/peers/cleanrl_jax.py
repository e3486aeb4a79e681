"""DQN in one file of JAX, as CleanRL documents its `dqn_jax`, written here.

The environment is Gymnasium's, in Python; what is compiled is an update and the choice of actions.
"""

import functools
from typing import Any

import cleanrl_settings
import flax.linen as nn
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from cleanrl_settings import EPSILON_START, GAMMA
from equations import Ring, epsilon, td_target
from protocol import Act, arguments
from rates import Rates, judge

Parameters = Any  # a tree of arrays


class Network(nn.Module):
    """Layers of ReLUs."""

    actions: int
    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, values: jax.Array) -> jax.Array:
        for units in self.hidden:
            values = nn.relu(nn.Dense(units)(values))
        return nn.Dense(self.actions)(values)


def _same(parameters: Parameters) -> Parameters:
    return parameters


def main() -> None:
    options = arguments()
    generator = np.random.default_rng(options.seed)
    settings = cleanrl_settings.of(options)
    environment = gymnasium.make(options.env_id)
    shape = environment.observation_space.shape
    ring = Ring(settings.capacity, shape, np.float32, options.seed)
    network = Network(int(environment.action_space.n), settings.hidden)
    online = network.init(jax.random.PRNGKey(options.seed), jnp.zeros((1, *shape)))
    target = online
    optimizer = optax.adam(settings.learning_rate)
    moments = optimizer.init(online)
    updates = 0

    @jax.jit
    def greedy(parameters: Parameters, observations: jax.Array) -> jax.Array:
        return network.apply(parameters, observations).argmax(axis=1)

    @jax.jit
    def learn(
        online: Parameters, target: Parameters, moments: Any, minibatch: tuple[jax.Array, ...]
    ) -> tuple[Parameters, Any]:
        observations, actions, rewards, following, terminated = minibatch
        best = network.apply(target, following).max(axis=1)
        wanted = td_target(rewards, terminated, best, GAMMA)

        def loss(parameters: Parameters) -> jax.Array:
            values = network.apply(parameters, observations)
            chosen = jnp.take_along_axis(values, actions[:, None], axis=1)[:, 0]
            return ((chosen - wanted) ** 2).mean()

        change, moments = optimizer.update(jax.grad(loss)(online), moments, online)
        return optax.apply_updates(online, change), moments

    def acting(parameters: Parameters) -> Act:
        return lambda observations: np.asarray(greedy(parameters, observations))

    observation, _ = environment.reset(seed=options.seed)
    protocol = judge(options)
    for step in range(options.env_steps):
        share = epsilon(step, EPSILON_START, settings.epsilon_end, settings.epsilon_steps)
        if generator.random() < share:
            action = int(generator.integers(environment.action_space.n))
        else:
            action = int(greedy(online, observation[None])[0])
        following, reward, terminated, cut, _ = environment.step(action)
        ring.add(observation, action, float(reward), following, terminated)
        observation = environment.reset()[0] if terminated or cut else following
        if step > settings.learning_starts and step % settings.update_period == 0:
            minibatch = ring.sample(settings.batch_size)
            online, moments = learn(online, target, moments, minibatch)
            updates += 1
        if step % settings.target_period == 0:
            target = online
        if protocol.due(step + 1) and protocol.evaluate(
            step + 1, updates, acting(online), functools.partial(_same, online)
        ):
            break
    if isinstance(protocol, Rates):
        protocol.end(acting, ring.bytes_per_transition)
    else:
        protocol.end(acting)


if __name__ == "__main__":
    main()
