"""Updates as a person would write them down: NumPy chooses, and one follows the other."""

import numpy as np
import tensorflow as tf

from ps_dqn import optimizers
from ps_dqn.config import Config
from ps_dqn.replay.batch import Transitions


def q_values(network, parameters, observations):
    return network.outputs(parameters, network.features(parameters, observations))


def reference_gradient(config: Config, network, online, target, batch: Transitions):
    """One minibatch's gradient, errors, and loss, mean Q(s, a) and norm; NumPy chooses."""
    value, learning = config.value, config.learning
    rows = np.arange(len(batch.actions))
    next_target = q_values(network, target, batch.next_observations).numpy()
    chooser = q_values(network, online, batch.next_observations).numpy()
    greedy = (chooser if value.double_dqn else next_target).argmax(-1)
    targets = batch.returns + batch.discounts * next_target[rows, greedy]
    with tf.GradientTape() as tape:
        tape.watch(online)
        outputs = q_values(network, online, batch.observations)
        chosen = tf.gather(outputs, batch.actions, batch_dims=1)
        size = tf.abs(targets - chosen)
        losses = 0.5 * size**2
        if value.loss == "huber":
            delta = value.huber_delta
            losses = tf.where(size <= delta, losses, delta * (size - 0.5 * delta))
        loss = tf.reduce_mean(batch.weights * losses)
    gradient = tape.gradient(loss, online).numpy()
    norm = np.linalg.norm(gradient)
    if learning.max_grad_norm and norm > learning.max_grad_norm:
        gradient = gradient * (learning.max_grad_norm / norm)
    return gradient, size.numpy(), [loss.numpy(), chosen.numpy().mean(), norm]


def reference_learn(config, network, online, target, slots, steps, rate, batch: Transitions):
    """The same update after update; the vector is a gradient or a change, as in `Learned`."""
    parameters, kept, sums, all_errors = tf.constant(online), list(slots), np.zeros(3), []
    optimizer = optimizers.build(config.learning)
    for i in range(config.parameter_server.local_updates):
        minibatch = Transitions(*(array[i] for array in batch))
        gradient, errors, values = reference_gradient(
            config, network, parameters, target, minibatch
        )
        sums += values
        all_errors.append(errors)
        if config.parameter_server.local_updates == 1:
            return [gradient, slots, *sums, np.stack(all_errors)]
        step = tf.constant(float(steps + i + 1))
        parameters, kept = optimizer.apply(parameters, kept, gradient, rate, step)
    return [parameters.numpy() - online, np.stack(kept), *sums, np.stack(all_errors)]
