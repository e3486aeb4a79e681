"""DQN compiled with its environment, as PureJaxRL documents its `dqn`, written here."""

import jax
import jax.numpy as jnp
import optax
from compiled import Environments, Network, State, explore, run
from equations import epsilon, td_target
from protocol import arguments
from rates import SAME

# github.com/luchris429/purejaxrl, purejaxrl/dqn.py.
SETTINGS = {
    "hidden": (120, 84),
    "batch_size": 128,
    "update_period": 10,  # and so many environments
    "capacity": 10_000,
    "learning_starts": 10_000,
    "learning_rate": 2.5e-4,
}
GAMMA, TARGET_PERIOD, EPSILON_START, EPSILON_END, EPSILON_STEPS = 0.99, 500, 1.0, 0.05, 250_000


def main() -> None:
    options = arguments()
    settings = SAME[options.env_id]._asdict() if options.rate_seconds else SETTINGS
    count = settings["update_period"]
    capacity, starts = settings["capacity"], settings["learning_starts"]
    environments = Environments(options.env_id, count)
    network = Network(environments.actions, settings["hidden"])
    optimizer = optax.adam(settings["learning_rate"])

    def start(key: jax.Array) -> State:
        key, of_network, of_environments = jax.random.split(key, 3)
        observations, state = environments.reset(of_environments)
        online = network.init(of_network, observations)
        vectors, numbers = jnp.zeros((capacity, *environments.shape)), jnp.zeros(capacity)
        return {
            "key": key,
            "environments": state,
            "observations": observations,
            "online": online,
            "target": jax.tree.map(jnp.array, online),
            "moments": optimizer.init(online),
            "replay": (vectors, numbers.astype(jnp.int32), numbers, vectors, numbers),
            "steps": jnp.zeros((), jnp.int32),
        }

    def learn(state: State, replay: tuple[jax.Array, ...], key: jax.Array) -> State:
        there = jnp.minimum(state["steps"] + count, capacity)
        drawn = jax.random.randint(key, (settings["batch_size"],), 0, there)
        observations, actions, rewards, following, done = (each[drawn] for each in replay)
        best = network.apply(state["target"], following).max(axis=1)
        wanted = td_target(rewards, done, best, GAMMA)

        def loss(parameters: State) -> jax.Array:
            values = network.apply(parameters, observations)
            chosen = jnp.take_along_axis(values, actions[:, None], axis=1)[:, 0]
            return ((chosen - wanted) ** 2).mean()

        change, moments = optimizer.update(jax.grad(loss)(state["online"]), state["moments"])
        return {"online": optax.apply_updates(state["online"], change), "moments": moments}

    def advance(state: State) -> State:
        key, to_act, to_step, to_learn = jax.random.split(state["key"], 4)
        values = network.apply(state["online"], state["observations"])
        share = epsilon(
            state["steps"], EPSILON_START, EPSILON_END, EPSILON_STEPS, larger=jnp.maximum
        )
        actions = explore(to_act, values, share)
        following, inside, rewards, done = environments.step(
            to_step, state["environments"], actions
        )
        rows = (state["observations"], actions, rewards, following, done)
        places = (state["steps"] + jnp.arange(count)) % capacity
        replay = tuple(
            ring.at[places].set(row.astype(ring.dtype))
            for ring, row in zip(state["replay"], rows, strict=True)
        )
        steps = state["steps"] + count
        learned = jax.lax.cond(
            steps > starts,
            lambda: learn(state, replay, to_learn),
            lambda: {"online": state["online"], "moments": state["moments"]},
        )
        is_due = steps % TARGET_PERIOD < count
        target = jax.tree.map(
            lambda new, old: jnp.where(is_due, new, old), learned["online"], state["target"]
        )
        return learned | {
            "key": key,
            "environments": inside,
            "observations": following,
            "target": target,
            "replay": replay,
            "steps": steps,
        }

    run(
        options,
        network,
        start,
        advance,
        steps=count,
        counts=lambda env_steps: max(0, env_steps // count - starts // count),
    )


if __name__ == "__main__":
    main()
