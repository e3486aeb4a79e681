"""What is done by what a network's head says: the best action by value, or one of a policy's.

Shapes: K rows, A actions. A policy's head gives its logits and the value of the state, [K, A + 1].
"""

from typing import NamedTuple

import tensorflow as tf

from ps_dqn.config import Value
from ps_dqn.networks import heads
from ps_dqn.seeds import Purpose, derive

# The smallest float32 of all its digits, whose logarithm is finite.
_TINY = 2.0**-126


class Chosen(NamedTuple):
    """Actions."""

    actions: tf.Tensor  # int32 [K]
    log_probs: tf.Tensor  # of them, by the policy that chose, float32 [K, 1]; [K, 0] by values


def choose(
    outputs: tf.Tensor,
    value: Value,
    counts: tuple[int, ...],
    seed: tf.Tensor | None,
    masks: tf.Tensor | None,
) -> Chosen:
    """The best actions, or where a policy is learned its own.

    Args:
        outputs: of the head, [K, …].
        value: what they are.
        counts: choices of each part of an action; none without branches.
        seed: of the policy's choice, int32 [2]; None is its likeliest action.
        masks: which actions are allowed, bool [K, A]; None or [K, 0]: all are.
    """
    values = heads.expected_values(outputs, value)  # [K, A]
    if not value.learns_policy:
        return Chosen(heads.greedy(values, masks, counts), tf.zeros_like(values[:, :0]))
    noisy = values
    if seed is not None:  # the largest with Gumbel noise is a draw from the softmax
        shape, seed = tf.shape(values), derive(seed, Purpose.POLICY)
        uniform = tf.random.stateless_uniform(shape, seed, minval=_TINY)
        noisy = values - tf.math.log(-tf.math.log(uniform))
    actions = heads.greedy(noisy, masks, counts)
    log_probs = tf.gather(log_policy(outputs, masks), actions, batch_dims=1)
    return Chosen(actions, log_probs[:, tf.newaxis])


def log_policy(outputs: tf.Tensor, masks: tf.Tensor | None) -> tf.Tensor:
    """Of a policy's head, ln π(a|s) of all actions, float32 [K, A]."""
    return tf.nn.log_softmax(heads.only_allowed(outputs[:, :-1], masks), axis=-1)


def state_values(outputs: tf.Tensor) -> tf.Tensor:
    """Of a policy's head, V(s), float32 [K]."""
    return outputs[:, -1]


def entropy(log_probs: tf.Tensor) -> tf.Tensor:
    """-Σ π ln π of log-probabilities [K, A], float32 [K] (nats)."""
    return -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=-1)
