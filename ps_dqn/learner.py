"""What a worker computes: the local updates and the greedy policy, without a cluster in it.

Shapes: E environments, M minibatches (= local updates), B transitions each, P parameters,
S optimizer slots, A actions.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from ps_dqn import losses, optimizers
from ps_dqn.config import Config
from ps_dqn.replay import Transitions

QFunction = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # ([P], [B, …]) -> [B, A]


class Learned(NamedTuple):
    """What the update loop gives back."""

    vector: tf.Tensor  # gradient (one update) or change of the parameters (more), float32 [P]
    slots: tf.Tensor  # float32 [S, P]
    td_loss: tf.Tensor  # sums over updates, float32 []
    q_values: tf.Tensor
    grad_norm: tf.Tensor


def local_optimizer_slots(config: Config) -> int:
    """S: none where the parameter servers apply the gradients themselves."""
    if config.parameter_server.local_updates == 1:
        return 0
    return optimizers.build(config.learning).num_slots


def make_learner(config: Config, q_function: QFunction) -> Callable[..., Learned]:
    """The update loop, a pure function without a cluster in it.

    Args:
        config: the experiment.
        q_function: the network.

    Returns:
        A compiled function of online [P], target [P], slots [S, P], steps made before (float32
        []), learning rate (float32 []) and `Transitions` of [M, B, …].
    """
    learning, updates = config.learning, config.parameter_server.local_updates
    optimizer = optimizers.build(learning)

    def minibatch(batch: Transitions, index: tf.Tensor) -> Transitions:
        return Transitions(*(array[index] for array in batch))

    def gradient(online, next_target, batch):  # type: ignore[no-untyped-def]
        next_online = q_function(online, batch.next_observations) if learning.double_dqn else None
        targets = losses.td_targets(batch.returns, batch.discounts, next_target, next_online)
        with tf.GradientTape() as tape:
            tape.watch(online)
            chosen = losses.chosen_values(q_function(online, batch.observations), batch.actions)
            errors = targets - chosen  # [B]
            if learning.loss == "huber":
                loss = tf.reduce_mean(losses.huber(errors, learning.huber_delta))
            else:
                loss = tf.reduce_mean(losses.squared(errors))
        clipped, norm = losses.clip_by_norm(tape.gradient(loss, online), learning.max_grad_norm)
        return clipped, loss, tf.reduce_mean(chosen), norm

    @tf.function(jit_compile=config.parameter_server.jit_compile, autograph=False)
    def learn(
        online: tf.Tensor,
        target: tf.Tensor,
        slots: tf.Tensor,
        steps: tf.Tensor,
        learning_rate: tf.Tensor,
        batch: Transitions,
    ) -> Learned:
        # The target stands still here, so its values are computed for all minibatches at once.
        shape = batch.next_observations.shape
        flat = tf.reshape(batch.next_observations, [shape[0] * shape[1], *shape[2:]])
        next_target = q_function(target, flat)
        next_target = tf.reshape(next_target, [shape[0], shape[1], next_target.shape[-1]])
        if updates == 1:
            vector, loss, value, norm = gradient(online, next_target[0], minibatch(batch, 0))
            return Learned(vector, slots, loss, value, norm)

        def update(i, parameters, slots, *sums):  # type: ignore[no-untyped-def]
            grad, *values = gradient(parameters, next_target[i], minibatch(batch, i))
            step = steps + tf.cast(i + 1, tf.float32)
            parameters, kept = optimizer.apply(
                parameters, tf.unstack(slots), grad, learning_rate, step
            )
            added = (total + value for total, value in zip(sums, values, strict=True))
            return i + 1, parameters, tf.stack(kept), *added

        zero = tf.zeros([])
        _, parameters, slots, *sums = tf.while_loop(
            lambda i, *_: i < updates,
            update,
            [tf.constant(0), online, slots, zero, zero, zero],
            maximum_iterations=updates,
        )
        return Learned(parameters - online, slots, *sums)

    return learn


def greedy_actions(
    q_function: QFunction, parameters: tf.Tensor, observations: tf.Tensor
) -> tf.Tensor:
    """The greedy policy: from parameters [P] and observations [E, …] to actions, int32 [E].

    Not compiled: for one pass over a few rows, XLA saves less in a run of seconds than it takes.
    """
    return tf.argmax(q_function(parameters, observations), -1, output_type=tf.int32)
