"""Recurrent PQN against an LSTM in NumPy, which reads one step after the other."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.four_numbers import slopes
from support.tiers import tiered

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.learner import Learned, local_optimizer_slots, make_learner
from ps_dqn.replay.batch import Rollout

GAMMA, LAMBDA, RATE, MOMENTUM = 0.9, 0.6, 0.05, 0.5
STEPS, ENVS, FEATURES, ACTIONS, UNITS = 4, 4, 2, 3, 2
GATES = 4 * UNITS
ENVIRONMENT = EnvironmentSpec((FEATURES,), np.dtype(np.float32), ACTIONS, None, has_masks=True)
SEED = np.array([1, 2], np.int32)
# Four updates of two sequences each: two epochs.
OPTIONS = {
    "replay": "rollout",
    "trace_lambda": LAMBDA,
    "target_update_period": 0,
    "double_dqn": False,
    "n_step": 1,
    "recurrent_size": UNITS,
    "num_envs_per_worker": ENVS,
    "local_updates": 4,
    "update_period": 4,
    "batch_size": 8,
    "hidden_sizes": (),
    "layer_norm": False,
    "loss": "squared",
    "optimizer": "sgd",
    "momentum": MOMENTUM,
    "max_grad_norm": 0.0,
    "jit_compile": "none",
}
ORDER = [[2, 0], [1, 3], [3, 2], [0, 1]]  # environments


def random_rollout() -> Rollout:
    """Of four environments, three of which end an episode.

    0 goes on. 1 terminates at step 1, 2 is truncated at step 0: both begin anew at once. 3 is
    truncated at step 1, and step 2 is the reset.
    """
    rng = np.random.default_rng(4)
    shape = (STEPS, ENVS)
    discounts, continues, weights = (np.full(shape, value, np.float32) for value in (GAMMA, 1, 1))
    starts, masks = np.zeros(shape, np.bool_), rng.random((*shape, ACTIONS)) < 0.6
    masks[..., 1] |= ~masks.any(axis=-1)
    discounts[1, 1] = continues[1, 1] = continues[0, 2] = continues[1, 3] = continues[-1] = 0
    weights[2, 3] = continues[2, 3] = 0
    starts[2, 1] = starts[1, 2] = starts[3, 3] = True
    states = rng.normal(size=(ENVS, 2 * UNITS + 2))
    states[:, -2] = [0, 1, 3, 2]  # the actions before, counted from 1
    each = [[[t * ENVS + env for t in range(STEPS)] for env in envs] for envs in ORDER]
    return Rollout(
        rng.normal(size=(*shape, FEATURES)).astype(np.float32),
        rng.integers(ACTIONS, size=shape).astype(np.int32),
        rng.normal(size=shape).astype(np.float32),
        discounts,
        rng.normal(size=(*shape, FEATURES)).astype(np.float32),
        masks,
        continues,
        weights,
        starts,
        states.astype(np.float32),
        np.ones((*shape, 0), np.bool_),
        np.zeros((*shape, 0), np.float32),
        np.array(each, np.int32).reshape(4, 8),
    )


def made(**values: Any) -> tuple[Config, Any]:
    config = Config.from_values(OPTIONS | values)
    return config, networks.build(config.network, config.value, ENVIRONMENT, seed=1)


@functools.cache
def learner(**values: Any) -> tuple[Callable[..., Learned], int]:
    """Traced once for all that learn in the same way, and how many slots it has."""
    config, network = made(**values)
    return make_learner(config, network), local_optimizer_slots(config)


def learn(batch: Rollout, online: np.ndarray, **values: Any) -> Learned:
    learned_by, num_slots = learner(**values)
    slots = np.zeros((num_slots, online.size), np.float32)
    numbers = np.float32(0), np.float32(RATE), np.float32(0.3)
    learned = learned_by(
        *map(tf.constant, (online, online * 0 + 9, slots, *numbers, SEED)),
        Rollout(*map(tf.constant, batch)),
    )
    return Learned(*(each.numpy() for each in learned))


def online_of(network: Any) -> np.ndarray:
    return np.random.default_rng(3).normal(0, 0.7, network.num_parameters).astype(np.float32)


class Lstm:
    """The network of a flat vector: an LSTM's weights, then those of the values of actions."""

    def __init__(self, vector: np.ndarray, scale: float = 1.0):
        self._scale = scale  # of the rewards that it reads
        shapes = [(FEATURES + ACTIONS + 1, GATES), (UNITS, GATES), (GATES,)]
        shapes += [(UNITS, ACTIONS), (ACTIONS,)]
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        assert ends[-1] == vector.size
        parts = np.split(vector.astype(np.float64), ends[:-1])
        self._weights = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def step(self, x: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values of all actions, and what it remembers."""
        kernel, recurrent, bias, head, head_bias = self._weights
        hidden, cell, (action, reward) = state[:UNITS], state[UNITS:-2], state[-2:]
        one_hot = np.eye(ACTIONS + 1)[int(action)][1:]
        read = np.concatenate([x, one_hot, [self._scale * reward]])
        gates = read @ kernel + hidden @ recurrent + bias
        enter, keep, new, leave = np.split(gates, 4)
        cell = cell / (1 + np.exp(-keep)) + np.tanh(new) / (1 + np.exp(-enter))
        hidden = np.tanh(cell) / (1 + np.exp(-leave))
        return hidden @ head + head_bias, np.concatenate([hidden, cell])

    def along(self, batch: Rollout, env: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Values at each step, and at what it led to."""
        state, here, after = batch.states[env], [], []
        for t in range(STEPS):
            if batch.starts[t, env]:
                state = np.zeros_like(state)
            q_values, memory = self.step(batch.observations[t, env], state)
            state = np.append(memory, [batch.actions[t, env] + 1, batch.rewards[t, env]])
            here.append(q_values)
            after.append(self.step(batch.next_observations[t, env], state)[0])
        return here, after


def reference_returns(parameters: np.ndarray, batch: Rollout, scale: float) -> np.ndarray:
    returns = np.zeros((STEPS, ENVS))
    for env in range(ENVS):
        _, after = Lstm(parameters, scale).along(batch, env)
        for t in reversed(range(STEPS)):
            value = after[t][batch.next_masks[t, env]].max()
            if batch.continues[t, env]:
                value = (1 - LAMBDA) * value + LAMBDA * returns[t + 1, env]
            returns[t, env] = scale * batch.rewards[t, env] + batch.discounts[t, env] * value
    return returns


def errors_of(
    network: Lstm, batch: Rollout, envs: Sequence[int], returns: np.ndarray
) -> np.ndarray:
    """Of some sequences, one after the other."""
    found = []
    for env in envs:
        here, _ = network.along(batch, env)
        found += [returns[t, env] - here[t][batch.actions[t, env]] for t in range(STEPS)]
    return np.array(found)


def reference_learn(
    batch: Rollout, start: np.ndarray, scale: float = 1.0
) -> tuple[np.ndarray, float, list[np.ndarray]]:
    """Descends on half the squared errors: the change, the sum of losses, and the errors."""
    parameters, velocity = start.astype(np.float64), np.zeros(start.size)
    returns = reference_returns(start, batch, scale)  # once, from the parameters at the start
    total, errors = 0.0, []
    for envs in ORDER:
        weights = batch.weights[:, envs].T.ravel()

        def loss(w: np.ndarray, envs: list[int] = envs, weights: np.ndarray = weights) -> float:
            errors = errors_of(Lstm(w, scale), batch, envs, returns)
            return float(np.mean(weights * errors**2 / 2))

        total += loss(parameters)
        errors.append(np.abs(errors_of(Lstm(parameters, scale), batch, envs, returns)))
        velocity = MOMENTUM * velocity + slopes(loss, parameters)
        parameters = parameters - RATE * velocity
    return parameters - start, total, errors


@pytest.mark.parametrize(
    "jit_compile", tiered(["none", "update"], quick=("none",), slow=("update",))
)
def test_learning_from_whole_sequences_against_a_reference(jit_compile: str) -> None:
    batch, online = random_rollout(), online_of(made()[1])
    learned = learn(batch, online, jit_compile=jit_compile)
    change, loss, errors = reference_learn(batch, online)
    np.testing.assert_allclose(learned.vector, change, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(learned.td_loss, loss, rtol=1e-4)
    np.testing.assert_allclose(learned.errors, errors, rtol=1e-4, atol=1e-5)
    assert np.abs(change).min() > 0, "every weight is moved, those of the past among them"


def test_rewards_are_scaled_where_learned_and_where_read() -> None:
    batch, scale = random_rollout(), 0.25
    online = online_of(made(normalize_returns="on")[1])
    online[0] = scale
    learned = learn(batch, online, normalize_returns="on")
    change, loss, _ = reference_learn(batch, online[1:], scale)
    assert learned.vector[0] == 0
    np.testing.assert_allclose(learned.vector[1:], change, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(learned.td_loss, loss, rtol=1e-4)


@pytest.mark.slow
def test_what_is_learned_is_the_same_compiled() -> None:
    options: dict[str, Any] = {
        "dueling": True, "hidden_sizes": (5, 4), "layer_norm": True,
        "loss": "huber", "optimizer": "adam", "momentum": 0.9, "max_grad_norm": 0.1,
    }  # fmt: skip
    batch, online = random_rollout(), made(**options)[1].initial
    expected, learned = (learn(batch, online, **options, jit_compile=j) for j in ("none", "update"))
    assert np.abs(expected.vector).max() > 1e-3
    np.testing.assert_allclose(learned.vector, expected.vector, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(learned.errors, expected.errors, rtol=1e-3, atol=1e-5)


def test_one_update_is_the_gradient_of_the_whole_rollout() -> None:
    batch, online = random_rollout(), online_of(made()[1])
    order = batch.order[:2].reshape(1, 16)  # every environment once
    options = {"local_updates": 1, "update_period": 16, "batch_size": 16, "optimizer": "adam"}
    learned = learn(batch._replace(order=order), online, **options, momentum=0.9)
    returns, envs = reference_returns(online, batch, 1.0), [*ORDER[0], *ORDER[1]]
    weights = batch.weights[:, envs].T.ravel()

    def loss(w: np.ndarray) -> float:
        return float(np.mean(weights * errors_of(Lstm(w), batch, envs, returns) ** 2 / 2))

    np.testing.assert_allclose(learned.vector, slopes(loss, online), rtol=1e-3, atol=1e-5)


def test_the_past_of_an_episode_matters_and_that_of_another_does_not() -> None:
    batch, online = random_rollout(), online_of(made()[1])
    expected = learn(batch, online)

    def moved(name: str, at: tuple[int, ...]) -> np.ndarray:
        """How much the errors of an environment's steps change with one of its numbers."""
        array = np.array(getattr(batch, name))
        array[at] += 1
        errors = learn(batch._replace(**{name: array}), online).errors
        return np.abs(errors[0].reshape(2, STEPS) - expected.errors[0].reshape(2, STEPS))

    # The first minibatch has environment 2, which begins anew at step 1, and environment 0.
    in_two, in_zero = moved("states", (2, 0)), moved("states", (0, 0))
    assert (in_two > 1e-4).tolist() == [[True, False, False, False], [False] * 4]
    assert (in_zero > 1e-4).tolist() == [[False] * 4, [True] * 4]
    # What an episode was left at is its own, and not what the next one begins with.
    assert (moved("next_observations", (0, 2, 0)) > 1e-4)[0].tolist() == [True] + 3 * [False]
