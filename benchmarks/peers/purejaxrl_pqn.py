"""PQN compiled with its environment (Gallici et al. 2024), written here from the paper.

It has no replay and no target network: each rollout is learned from some times.
"""

import jax
import jax.numpy as jnp
import optax
from compiled import Environments, Network, State, explore, run
from equations import epsilon, lambda_return
from protocol import arguments

# github.com/mttga/purejaxql, config/alg/pqn_cartpole.yaml.
ENVIRONMENTS, STEPS, MINIBATCHES, EPOCHS = 32, 64, 16, 4
TOTAL, HIDDEN, GAMMA, TRACE, REWARD_SCALE = 500_000, (256, 256), 0.99, 0.95, 0.1
EPSILON_START, EPSILON_END, EPSILON_SHARE = 1.0, 0.2, 0.2
LEARNING_RATE, MAX_GRAD_NORM = 1e-4, 10.0
ROLLOUT = ENVIRONMENTS * STEPS


def main() -> None:
    options = arguments()
    environments = Environments(options.env_id, ENVIRONMENTS)
    network = Network(environments.actions, HIDDEN, layer_norm=True)
    rollouts = TOTAL // ROLLOUT
    schedule = optax.linear_schedule(LEARNING_RATE, 1e-20, rollouts * MINIBATCHES * EPOCHS)
    optimizer = optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), optax.radam(schedule))

    def start(key: jax.Array) -> State:
        key, of_network, of_environments = jax.random.split(key, 3)
        observations, state = environments.reset(of_environments)
        online = network.init(of_network, observations)
        return {
            "key": key,
            "environments": state,
            "observations": observations,
            "online": online,
            "moments": optimizer.init(online),
            "rollouts": jnp.zeros((), jnp.int32),
        }

    def play(state: State) -> tuple[State, tuple[jax.Array, ...]]:
        """A rollout: observations, actions, rewards, done, values of best actions [steps, …]."""
        share = epsilon(
            state["rollouts"],
            EPSILON_START,
            EPSILON_END,
            EPSILON_SHARE * rollouts,
            larger=jnp.maximum,
        )

        def step(carried: tuple, _: None) -> tuple:
            key, observations, inside = carried
            key, to_act, to_step = jax.random.split(key, 3)
            values = network.apply(state["online"], observations)
            actions = explore(to_act, values, share)
            following, inside, rewards, done = environments.step(to_step, inside, actions)
            row = (observations, actions, REWARD_SCALE * rewards, done, values.max(axis=1))
            return (key, following, inside), row

        carried = (state["key"], state["observations"], state["environments"])
        (key, observations, inside), rows = jax.lax.scan(step, carried, length=STEPS)
        return state | {"key": key, "observations": observations, "environments": inside}, rows

    def returns(state: State, rows: tuple[jax.Array, ...]) -> jax.Array:
        _, _, rewards, done, best = rows
        last = network.apply(state["online"], state["observations"]).max(axis=1)
        following = jnp.concatenate([best[1:], last[None]])

        def step(after: jax.Array, row: tuple[jax.Array, ...]) -> tuple:
            found = lambda_return(*row, after, GAMMA, TRACE)
            return found, found

        return jax.lax.scan(step, last, (rewards, done, following), reverse=True)[1]

    def learn(carried: tuple, minibatch: tuple[jax.Array, ...]) -> tuple:
        online, moments = carried
        observations, actions, wanted = minibatch

        def loss(parameters: State) -> jax.Array:
            values = network.apply(parameters, observations)
            chosen = jnp.take_along_axis(values, actions[:, None], axis=1)[:, 0]
            return 0.5 * ((chosen - wanted) ** 2).mean()

        change, moments = optimizer.update(jax.grad(loss)(online), moments, online)
        return (optax.apply_updates(online, change), moments), None

    def advance(state: State) -> State:
        state, rows = play(state)
        flat = [
            each.reshape(ROLLOUT, *each.shape[2:])
            for each in (rows[0], rows[1], returns(state, rows))
        ]

        def epoch(carried: tuple, key: jax.Array) -> tuple:
            order = jax.random.permutation(key, ROLLOUT)
            minibatches = [each[order].reshape(MINIBATCHES, -1, *each.shape[1:]) for each in flat]
            return jax.lax.scan(learn, carried, tuple(minibatches))

        key, to_shuffle = jax.random.split(state["key"])
        (online, moments), _ = jax.lax.scan(
            epoch, (state["online"], state["moments"]), jax.random.split(to_shuffle, EPOCHS)
        )
        made = state["rollouts"] + 1
        return state | {"key": key, "online": online, "moments": moments, "rollouts": made}

    run(
        options,
        network,
        start,
        advance,
        steps=ROLLOUT,
        counts=lambda env_steps: env_steps // ROLLOUT * MINIBATCHES * EPOCHS,
    )


if __name__ == "__main__":
    main()
