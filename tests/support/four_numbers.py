"""Sources of minibatches on a recurrent network of four numbers, and slow references in NumPy.

The network's parameters are how much of its memory it keeps, what an observation adds to it, and
the weights of two actions: h ← keep·h + add·x, Q(a) = weight_a·h. Without memory h = add·x. Along
sequences x has a share of the last action, counted from 1, and of what it paid, each 0 where an
episode begins; the state is h and both of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning.minibatches import MinibatchLoss, make_source
from ps_dqn.replay.batch import Sequences, Transitions

# Not tensors: TensorFlow is set up after this module is imported.
SEED, EPSILON = np.array([5, 6], np.int32), np.float32(0.3)
# keep, add, weight of action 0, weight of action 1
ONLINE = np.array([0.7, 0.9, 1.2, -0.8])
TARGET = np.array([0.5, 1.1, -0.6, 0.9])
# How much of the last action and of its reward the memory reads beside an observation.
LAST = np.array([0.4, 0.3])
STATE = 3  # numbers of it
SMALL = {"num_envs_per_worker": 1, "update_period": 1, "double_dqn": False}

MODES: dict[str, dict[str, Any]] = {
    "dqn": {},
    "double": {"double_dqn": True},
    "munchausen": {"munchausen": True, "munchausen_temperature": 0.3},
    "expected": {"target": "expected_sarsa"},
    "double expected": {"target": "expected_sarsa", "double_dqn": True},
}
SIZES = {"burn_in": 3, "sequence_length": 4, "n_step": 2}
RECURRENT = SIZES | {"recurrent_size": 1, "batch_size": 3, "sequence_period": 2}


class Memory:
    """The network, as far as sources use it."""

    def __init__(self, state_size: int):
        self.state_size = state_size

    def features(self, parameters: Any, observations: Any, noise: Any = None) -> tf.Tensor:
        return parameters[1] * observations  # [B, 1]

    def unroll(
        self,
        parameters: Any,
        observations: Any,
        starts: Any,
        actions: Any,
        rewards: Any,
        state: Any,
        noise: Any = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        rows = []
        for i in range(observations.shape[1]):
            state = tf.where(starts[:, i, None], 0.0, state)
            x = observations[:, i] + tf.reduce_sum(state[:, 1:] * LAST, axis=1, keepdims=True)
            rows.append(parameters[0] * state[:, :1] + parameters[1] * x)
            last = tf.stack([tf.cast(actions[:, i] + 1, tf.float32), rewards[:, i]], axis=1)
            state = tf.concat([rows[-1], last], axis=1)
        return tf.stack(rows, axis=1), state

    def outputs(self, parameters: Any, features: Any, noise: Any = None) -> tf.Tensor:
        return features * parameters[2:]  # [K, 2]

    def q_values(self, outputs: Any) -> tf.Tensor:
        return outputs

    def rewards(self, parameters: Any, rewards: Any) -> tf.Tensor:
        return rewards


def tensors(batch: Any) -> Any:
    return type(batch)(*map(tf.constant, batch))


def one(batch: Any, index: int) -> Any:
    """One minibatch of a batch."""
    return type(batch)(*(array[index] for array in batch))


def single(vector: np.ndarray) -> tf.Tensor:
    return tf.constant(vector, tf.float32)


def learn(
    source: Any, batch: Any, index: int, online: np.ndarray = ONLINE, target: np.ndarray = TARGET
) -> tuple[MinibatchLoss, np.ndarray]:
    """The loss of one minibatch, and its gradient."""
    prepared = source.prepare(single(target), tensors(batch), SEED)
    prepared = tf.nest.map_structure(lambda each: each[index], prepared)
    parameters = single(online)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        minibatch = source.minibatch(tensors(batch), index)
        found = source.loss(parameters, minibatch, prepared, SEED, EPSILON)
    return found, tape.gradient(found.loss, parameters).numpy()


def slopes(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """The gradient by central differences, in double precision."""
    steps = np.eye(len(at)) * 1e-5
    return np.array([(function(at + step) - function(at - step)) / 2e-5 for step in steps])


def close(values: Any) -> Any:
    return pytest.approx(np.asarray(values), rel=1e-4, abs=1e-5)


def random_transitions(rng: np.random.Generator) -> Transitions:
    """Three minibatches of four transitions."""
    return Transitions(
        rng.normal(size=(3, 4, 1)).astype(np.float32),
        rng.integers(2, size=(3, 4)).astype(np.int32),
        rng.normal(size=(3, 4)).astype(np.float32),
        np.where(rng.random((3, 4)) < 0.25, 0, 0.9).astype(np.float32),
        rng.normal(size=(3, 4, 1)).astype(np.float32),
        *[np.ones((3, 4, 0), np.bool_)] * 2,
        rng.uniform(0.2, 1, (3, 4)).astype(np.float32),
        np.ones((3, 4, 0), np.float32),
    )


def squared_source(state_size: int = 0, **values: Any) -> Any:
    options = SMALL | {"loss": "squared", "batch_size": 4, **values}
    return make_source(Config.from_values(options), Memory(state_size))  # type: ignore[arg-type]


def bonus(q_values: np.ndarray, action: int) -> float:
    logits = q_values / 0.3
    return 0.9 * max(0.3 * (logits[action] - np.log(np.exp(logits).sum())), -1.0)


def next_value(mode: str, target: np.ndarray, online: np.ndarray) -> float:
    """The value of the bootstrap state from both networks' values there."""
    if mode == "munchausen":
        return 0.3 * np.log(np.exp(target / 0.3).sum())
    greedy = target[np.argmax(online)] if "double" in mode else target.max()
    return 0.7 * greedy + 0.3 * target.mean() if "expected" in mode else greedy


def random_sequences(rng: np.random.Generator, n_step: int = SIZES["n_step"]) -> Sequences:
    """Two minibatches of three sequences; episodes begin anywhere, one row is no transition."""
    burn_in, steps = SIZES["burn_in"], SIZES["sequence_length"]
    shape, rows = (2, 3), burn_in + steps + n_step
    lengths = rng.integers(1, n_step + 1, (*shape, steps))
    weights = rng.uniform(0.2, 1, (*shape, steps))
    weights[:, 1, 1] = 0
    lengths[:, 1, 1] = 0
    return Sequences(
        rng.normal(size=(*shape, rows, 1)).astype(np.float32),
        rng.random((*shape, rows)) < 0.2,
        rng.normal(size=(*shape, STATE)).astype(np.float32),
        np.ones((*shape, rows, 0), np.bool_),
        rng.integers(2, size=(*shape, rows)).astype(np.int32),
        rng.normal(size=(*shape, rows)).astype(np.float32),
        rng.normal(size=(*shape, steps)).astype(np.float32),
        np.where(rng.random((*shape, steps)) < 0.25, 0, 0.9).astype(np.float32),
        (burn_in + np.arange(steps) + lengths).astype(np.int32),
        weights.astype(np.float32),
    )


def changed(batch: Any, name: str, index: Any, value: Any) -> Any:
    array = np.array(getattr(batch, name))
    array[index] = value
    return batch._replace(**{name: array})
