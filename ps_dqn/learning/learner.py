"""What a worker computes for one push: the local updates, without a cluster in it.

Shapes: M minibatches (= local updates) of B items each, P parameters, S optimizer slots.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ps_dqn import optimizers
from ps_dqn.config import Config
from ps_dqn.learning import losses
from ps_dqn.learning.minibatches import Source, make_source
from ps_dqn.learning.result import Learned
from ps_dqn.learning.shifts import shifted_batch
from ps_dqn.networks.network import QNetwork
from ps_dqn.replay.batch import Batch, Rollout
from ps_dqn.seeds import Purpose, derive


def local_optimizer_slots(config: Config) -> int:
    """S: none where the parameter servers apply the gradients themselves."""
    if config.parameter_server.local_updates == 1:
        return 0
    return optimizers.build(config.learning).num_slots


def _prepares_once(config: Config) -> bool:
    """Whether what the updates bootstrap from is found once for all of them.

    Without a target network every update bootstraps from its own parameters, and noise is drawn
    anew for every minibatch (Fortunato et al. 2018); except for rollouts, whose returns are found
    once.
    """
    is_same = config.learning.target_update_period > 0 and not config.network.noisy
    return is_same or config.replay.replay == "rollout"


def make_gradient(config: Config, network: QNetwork, source: Source) -> Callable[..., Any]:
    """The gradient of one update.

    A function of parameters [P], those bootstrapped from, a `Batch`, what was prepared, index, seed
    and ε. It returns the clipped gradient [P], the errors [B], and (loss, Q-value, norm before
    clipping, entropy).
    """
    is_fixed, max_norm = _prepares_once(config), config.learning.max_grad_norm

    def gradient(  # type: ignore[no-untyped-def]
        parameters, bootstrapping, batch, prepared, index, seed, epsilon
    ):
        seed = derive(seed, Purpose.UPDATES + index)
        minibatch = source.minibatch(batch, index)
        if is_fixed:
            prepared = tf.nest.map_structure(lambda each: each[index], prepared)
        else:
            alone = tf.nest.map_structure(lambda each: each[tf.newaxis], minibatch)
            prepared = source.prepare(bootstrapping, alone, seed)
            prepared = tf.nest.map_structure(lambda each: each[0], prepared)
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            found = source.loss(network.cut(parameters), minibatch, prepared, seed, epsilon)
        clipped, norm = losses.clip_by_norm(tape.gradient(found.loss, parameters), max_norm)
        return clipped, found.errors, (found.loss, found.q_value, norm, found.entropy)

    return gradient


def _as_learned(batch: Batch, network: QNetwork, parameters: tf.Tensor) -> Batch:
    """The batch, returns as the network is to learn them; rewards that it observes stay."""
    if isinstance(batch, Rollout):
        return batch  # whose returns are yet to be found
    return batch._replace(returns=network.rewards(parameters, batch.returns))


def make_learner(config: Config, network: QNetwork) -> Callable[..., Learned]:
    """The update loop, a pure function without a cluster in it.

    Args:
        config: the experiment.
        network: the Q-network.

    Returns:
        A compiled function of online [P], target [P], slots [S, P], steps made before (float32
        []), learning rate (float32 []), ε of the policy that acts (float32 []), a seed (int32 [2])
        and a `Batch` of M minibatches.
    """
    learning, updates = config.learning, config.parameter_server.local_updates
    compiled = config.parameter_server.jit_compile
    if compiled == "auto":
        compiled = "optimizer" if network.has_convolutions else "update"
    apply = optimizers.build(learning).apply
    if compiled == "optimizer":
        apply = tf.function(apply, jit_compile=True, autograph=False)
    source = make_source(config, network)
    is_fixed = _prepares_once(config)
    gradient = make_gradient(config, network, source)

    @tf.function(jit_compile=compiled == "update", autograph=False)
    def learn(
        online: tf.Tensor,
        target: tf.Tensor,
        slots: tf.Tensor,
        steps: tf.Tensor,
        learning_rate: tf.Tensor,
        epsilon: tf.Tensor,
        seed: tf.Tensor,
        batch: Batch,
    ) -> Learned:
        has_target = learning.target_update_period > 0
        batch = _as_learned(batch, network, online)
        prepared = source.prepare(target if has_target else online, batch, seed) if is_fixed else ()
        if updates == 1:
            vector, errors, values = gradient(
                online,
                target if has_target else online,
                batch,
                prepared,
                tf.constant(0),
                seed,
                epsilon,
            )
            loss, q_value, norm, entropy = values
            return Learned(vector, slots, loss, q_value, norm, errors[tf.newaxis], entropy)

        def update(i, parameters, slots, errors, *sums):  # type: ignore[no-untyped-def]
            bootstrapping = target if has_target else parameters
            grad, error, values = gradient(
                parameters, bootstrapping, batch, prepared, i, seed, epsilon
            )
            step = steps + tf.cast(i + 1, tf.float32)
            parameters, kept = apply(parameters, tf.unstack(slots), grad, learning_rate, step)
            added = (total + value for total, value in zip(sums, values, strict=True))
            return i + 1, parameters, tf.stack(kept), errors.write(i, error), *added

        zero = tf.zeros([])
        errors = tf.TensorArray(tf.float32, updates, element_shape=[learning.batch_size])
        _, parameters, slots, errors, loss, q_value, norm, entropy = tf.while_loop(
            lambda i, *_: i < updates,
            update,
            [tf.constant(0), online, slots, errors, zero, zero, zero, zero],
            maximum_iterations=updates,
        )
        vector = parameters - online
        return Learned(vector, slots, loss, q_value, norm, errors.stack(), entropy)

    return _from_shifted(learn, learning.random_shift) if learning.random_shift else learn


def _from_shifted(learn: Callable[..., Learned], most: int) -> Any:
    """The same from images that are shifted; XLA is not to compile that, it gathers one by one."""

    @tf.function(autograph=False)
    def shift_and_learn(  # type: ignore[no-untyped-def]
        online, target, slots, steps, learning_rate, epsilon, seed, batch
    ):
        shifted = shifted_batch(batch, most, seed)
        return learn(online, target, slots, steps, learning_rate, epsilon, seed, shifted)

    return shift_and_learn
