"""Q-networks as Keras models, used as pure functions of one flat parameter vector.

Shapes: B states, A actions, P parameters.
"""

import math
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from ps_dqn.config import Network
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError


def build(config: Network, environment: EnvironmentSpec, seed: int) -> keras.Model:
    """A multi-layer perceptron from observations [B, …] to action values [B, A].

    Args:
        config: widths, activation, normalisation.
        environment: shape and dtype of an observation, and A; uint8 is scaled from 0..255 to 0..1.
        seed: of the initial weights.
    """
    seeds = iter(np.random.SeedSequence(seed).generate_state(len(config.hidden_sizes) + 1))

    def dense(width: int, scale: float) -> keras.layers.Layer:
        initializer = keras.initializers.VarianceScaling(
            scale, "fan_in", "truncated_normal", seed=int(next(seeds))
        )
        return keras.layers.Dense(width, kernel_initializer=initializer)

    inputs = keras.Input(environment.observation_shape, dtype=environment.observation_dtype.name)
    x = inputs
    if environment.observation_dtype == np.uint8:
        x = keras.layers.Rescaling(1 / 255)(x)
    if len(environment.observation_shape) != 1:
        x = keras.layers.Flatten()(x)
    for width in config.hidden_sizes:
        x = dense(width, 2.0)(x)
        if config.layer_norm:
            x = keras.layers.LayerNormalization()(x)
        x = keras.layers.Activation(config.activation)(x)
    return keras.Model(inputs, dense(environment.num_actions, 1.0)(x), name="q_network")


def flatten(model: keras.Model) -> np.ndarray:
    """All weights of a model as one vector, float32 [P]."""
    return np.concatenate([np.ravel(each.numpy()) for each in model.trainable_variables])


def assign(model: keras.Model, vector: np.ndarray) -> None:
    """Puts a vector of `flatten`'s order back into a model; float32 [P]."""
    start = 0
    for variable in model.trainable_variables:
        size = math.prod(variable.shape)
        variable.assign(vector[start : start + size].reshape(variable.shape))
        start += size


def pure_function(model: keras.Model) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """The model as a function of a parameter vector [P] and observations [B, …].

    Raises:
        UsageError: the model has state beside its trainable weights (such as BatchNormalization's
            averages), which a parameter server would not share.
    """
    state = [variable.path for variable in model.non_trainable_variables]
    if state:
        raise UsageError(
            f"the network keeps state beside its trainable weights ({', '.join(state)}), which "
            f"workers cannot share: use layers without such state (LayerNormalization, say)"
        )
    shapes = [tuple(variable.shape) for variable in model.trainable_variables]
    sizes = [math.prod(shape) for shape in shapes]

    def q_values(parameters: tf.Tensor, observations: tf.Tensor) -> tf.Tensor:
        # One split, so that its gradient is one concatenation.
        parts = tf.split(parameters, sizes)
        weights = [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
        return model.stateless_call(weights, [], observations)[0]  # [B, A]

    return q_values
