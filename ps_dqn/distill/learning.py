"""The student's minibatches: pure functions of one flat vector, as networks are.

Shapes: U minibatches of B observations each, C values (A, or choices of branches), A actions, P
parameters.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn.config.distillation import Distillation
from ps_dqn.distill import losses
from ps_dqn.networks import branches
from ps_dqn.networks.network import QNetwork
from ps_dqn.optimizers import Adam

_ADAM = Adam(epsilon=1e-8)


class Seen(NamedTuple):
    """Observations, and what the teacher says of them."""

    rows: Any  # as they are kept, [B, …]
    q_values: Any  # the teacher's, float32 [B, C]
    masks: Any  # which actions are allowed, bool [B, A]; [B, 0]: all are


class Learned(NamedTuple):
    """The student after some minibatches."""

    parameters: Any  # float32 [P]
    slots: Any  # Adam's, float32 [2, P]
    updates: Any  # made so far, float32 []
    loss: Any  # mean over these minibatches, float32 []


def begin(student: QNetwork, teacher: QNetwork, parameters: np.ndarray) -> Learned:
    """A student that has learned nothing, but sees what the teacher sees.

    Args:
        student: its network.
        teacher: the network that it learns from.
        parameters: of the teacher, which begin with the means and scales of observations.
    """
    first = student.initial.copy()
    known = teacher.segments[0].start  # numbers that no gradient changes
    assert student.segments[0].start == known, "they standardize alike"
    first[:known] = parameters[:known]
    nothing = tf.zeros([])
    return Learned(tf.constant(first), tf.zeros([2, first.size]), nothing, nothing)


def make_loss(student: QNetwork, options: Distillation) -> Callable[[tf.Tensor, Seen], tf.Tensor]:
    """A function of parameters [P] and B observations: the mean loss, float32 []."""
    each = losses.of(options.loss, options.temperature_of(student.has_policy))

    def loss(parameters: tf.Tensor, seen: Seen) -> tf.Tensor:
        weights = student.cut(parameters)
        found = student.q_values(student.outputs(weights, student.features(weights, seen.rows)))
        if not student.branches:
            return tf.reduce_mean(each(found, seen.q_values, seen.masks))
        own = branches.split(found, student.branches)
        right = branches.split(seen.q_values, student.branches)
        parts = [each(*pair, seen.masks) for pair in zip(own, right, strict=True)]
        return tf.reduce_mean(tf.add_n(parts))

    return loss


def make_learner(student: QNetwork, options: Distillation) -> Callable[..., Learned]:
    """A compiled function of what was learned, a step size and `Seen` with U before B.

    The step size is float32 [], of all of these minibatches.
    """
    loss_of, updates = make_loss(student, options), options.updates_at_once

    # As with the learner of a run: XLA computes Keras's convolutions slowly.
    @tf.function(jit_compile=not student.has_convolutions, autograph=False)
    def learn(before: Learned, learning_rate: tf.Tensor, batches: Seen) -> Learned:
        def update(i, parameters, slots, total):  # type: ignore[no-untyped-def]
            seen = Seen(*(each[i] for each in batches))
            with tf.GradientTape() as tape:
                tape.watch(parameters)
                loss = loss_of(parameters, seen)
            step = before.updates + tf.cast(i + 1, tf.float32)
            parameters, kept = _ADAM.apply(
                parameters, tf.unstack(slots), tape.gradient(loss, parameters), learning_rate, step
            )
            return i + 1, parameters, tf.stack(kept), total + loss

        _, parameters, slots, total = tf.while_loop(
            lambda i, *_: i < updates,
            update,
            [tf.constant(0), before.parameters, before.slots, tf.zeros([])],
            maximum_iterations=updates,
        )
        return Learned(parameters, slots, before.updates + updates, total / updates)

    return learn
