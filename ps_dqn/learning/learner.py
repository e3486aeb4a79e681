"""What a worker computes for one push: the local updates, without a cluster in it.

Shapes: M minibatches (= local updates) of B items each, P parameters, S optimizer slots.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ps_dqn import optimizers
from ps_dqn.config import Config
from ps_dqn.learning import loss_scaling, losses, masking
from ps_dqn.learning.loss_scaling import LossScaling
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


def compiled_by_xla(config: Config, network: QNetwork, on_gpus: bool) -> str:
    """What of the update loop is: "update" all of it, "optimizer" its step, "none".

    Args:
        config: the experiment.
        network: the Q-network.
        on_gpus: whether all learning is done on GPUs; XLA is slow at convolutions on processors.
    """
    said = config.parameter_server.jit_compile
    if said == "auto":
        return "optimizer" if network.has_convolutions and not on_gpus else "update"
    return said


def _prepares_once(config: Config, network: QNetwork) -> bool:
    """Whether what the updates bootstrap from is found once for all of them.

    Without a target network every update bootstraps from its own parameters, and noise is drawn
    anew for every minibatch (Fortunato et al. 2018); except for rollouts, whose returns are found
    once. Images and IQN's quantiles of all minibatches at once would take tens and hundreds of
    megabytes, which no processor's cache has; what is small is a little quicker at once.
    """
    is_same = config.learning.target_update_period > 0 and not config.network.noisy
    has_images = network.has_convolutions or network.inner_models
    is_small = not has_images and config.value.value_distribution != "iqn"
    return (is_same and is_small) or config.replay.replay == "rollout"


def make_gradient(
    config: Config, network: QNetwork, source: Source, scaling: LossScaling
) -> Callable[..., Any]:
    """The gradient of one update.

    A function of parameters [P], those bootstrapped from, a `Batch`, what was prepared, index,
    seed, ε, the loss scale and the mask. It returns the masked and clipped gradient [P], the errors
    [B], (loss, Q-value, norm before clipping, entropy, growth), and the loss scale after it.
    """
    is_fixed, max_norm = _prepares_once(config, network), config.learning.max_grad_norm

    def gradient(  # type: ignore[no-untyped-def]
        parameters, bootstrapping, batch, prepared, index, seed, epsilon, scale, mask
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
            scaled = scaling.scaled(found.loss, scale)
        of_loss, after = scaling.unscaled(tape.gradient(scaled, parameters), scale)
        clipped, norm = losses.clip_by_norm(masking.masked(of_loss, mask), max_norm)
        growth = masking.growth(config.pruning, of_loss)
        values = (found.loss, found.q_value, norm, found.entropy, growth)
        return clipped, found.errors, scaling.kept(scale, after, [0.0] * len(values), values), after

    return gradient


def _as_learned(batch: Batch, network: QNetwork, parameters: tf.Tensor) -> Batch:
    """The batch, returns as the network is to learn them; rewards that it observes stay."""
    if isinstance(batch, Rollout):
        return batch  # whose returns are yet to be found
    return batch._replace(returns=network.rewards(parameters, batch.returns))


def make_learner(
    config: Config, network: QNetwork, on_gpus: bool = False
) -> Callable[..., Learned]:
    """The update loop, a pure function without a cluster in it.

    Args:
        config: the experiment.
        network: the Q-network.
        on_gpus: whether it is to run on GPUs, wherever it runs.

    Returns:
        A compiled function of online [P], target [P], slots [S, P], steps made before (float32
        []), learning rate (float32 []), ε of the policy that acts (float32 []), a seed (int32 [2]),
        a `Batch` of M minibatches, a loss scale (float32 [numbers of its state]) and a mask of the
        parameters (float32 [P], or [0] for all; masked ones of online and target are zero).
    """
    learning, updates = config.learning, config.parameter_server.local_updates
    compiled = compiled_by_xla(config, network, on_gpus)
    optimizer = optimizers.build(learning)

    def apply(old, slots, grad, rate, step):  # type: ignore[no-untyped-def]
        """One step; slots as one array, which XLA reads and writes without a copy."""
        new, kept = optimizer.apply(old, tf.unstack(slots), grad, rate, step)
        return new, tf.stack(kept)

    if compiled == "optimizer":
        apply = tf.function(apply, jit_compile=True, autograph=False)
    source = make_source(config, network)
    is_fixed = _prepares_once(config, network)
    scaling = loss_scaling.make(config.precision)
    gradient = make_gradient(config, network, source, scaling)

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
        scale: tf.Tensor = loss_scaling.NONE,
        mask: tf.Tensor = masking.NONE,
    ) -> Learned:
        has_target = learning.target_update_period > 0
        batch = _as_learned(batch, network, online)
        prepared = source.prepare(target if has_target else online, batch, seed) if is_fixed else ()
        if updates == 1:
            vector, errors, values, scale = gradient(
                online,
                target if has_target else online,
                batch,
                prepared,
                tf.constant(0),
                seed,
                epsilon,
                scale,
                mask,
            )
            loss, q_value, norm, entropy, growth = values
            errors = errors[tf.newaxis]
            return Learned(vector, slots, loss, q_value, norm, errors, entropy, scale, growth)

        def update(i, old, slots, errors, scale, *sums):  # type: ignore[no-untyped-def]
            bootstrapping = target if has_target else old
            grad, error, values, after = gradient(
                old, bootstrapping, batch, prepared, i, seed, epsilon, scale, mask
            )
            step = steps + scaling.made(scale, i + 1)
            new, kept = apply(old, slots, grad, learning_rate, step)
            new, slots = scaling.kept(scale, after, [old, slots], [new, kept])
            added = (total + value for total, value in zip(sums, values, strict=True))
            return i + 1, new, slots, errors.write(i, error), after, *added

        zero, growth = tf.zeros([]), masking.growth(config.pruning, tf.zeros_like(online))
        errors = tf.TensorArray(tf.float32, updates, element_shape=[learning.batch_size])
        # What weights had that are masked by now would move them.
        slots = masking.masked(slots, mask)
        _, parameters, slots, errors, scale, loss, q_value, norm, entropy, growth = tf.while_loop(
            lambda i, *_: i < updates,
            update,
            [tf.constant(0), online, slots, errors, scale, zero, zero, zero, zero, growth],
            maximum_iterations=updates,
        )
        vector, found = parameters - online, errors.stack()
        return Learned(vector, slots, loss, q_value, norm, found, entropy, scale, growth)

    return _from_shifted(learn, learning.random_shift) if learning.random_shift else learn


def _from_shifted(learn: Callable[..., Learned], most: int) -> Any:
    """The same from images that are shifted; XLA is not to compile that, it gathers one by one."""

    @tf.function(autograph=False)
    def shift_and_learn(  # type: ignore[no-untyped-def]
        online, target, slots, steps, rate, epsilon, seed, batch, scale=loss_scaling.NONE,
        mask=masking.NONE,
    ):  # fmt: skip
        shifted = shifted_batch(batch, most, seed)
        return learn(online, target, slots, steps, rate, epsilon, seed, shifted, scale, mask)

    return shift_and_learn
