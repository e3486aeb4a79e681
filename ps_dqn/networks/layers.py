"""The layers a Q-network is made of: Keras's own, and those that Keras lacks.

Shapes: B rows, F features, U units, N quantile fractions.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from ps_dqn import seeds
from ps_dqn.config import Network
from ps_dqn.networks import atoms, precision
from ps_dqn.networks.convolutions import PatchConvolution, SpectralConvolution
from ps_dqn.networks.lstm import LSTM
from ps_dqn.networks.quantized import QuantizedConvolution, QuantizedDense

_MOST_SEEDS = 256  # of a network's layers beside its hidden ones


@keras.saving.register_keras_serializable("ps_dqn")
class NoisyDense(keras.layers.Layer):
    """A dense layer with factorised Gaussian noise on its weights (arXiv:1706.10295).

    The means start as a dense layer's would, the deviations at `sigma` / sqrt(F). One draw serves
    all rows of a call.

    Args:
        units: U.
        sigma: σ0, the deviation at the start before it is divided by sqrt(F).
        salt: number of this layer; what is drawn differs by it.
        kernel_initializer: of the kernel's means.
    """

    def __init__(self, units: int, sigma: float, salt: int, kernel_initializer: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.units = units
        self.sigma = sigma
        self.salt = salt
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes the means, [F, U] and [U], and the deviations of the same shapes."""
        shape = (input_shape[-1], self.units)
        deviation = keras.initializers.Constant(self.sigma / math.sqrt(shape[0]))
        self.kernel = self.add_weight(shape, self.kernel_initializer, name="kernel")
        self.bias = self.add_weight(shape[1:], "zeros", name="bias")
        self.kernel_sigma = self.add_weight(shape, deviation, name="kernel_sigma")
        self.bias_sigma = self.add_weight(shape[1:], deviation, name="bias_sigma")

    @property
    def noise_size(self) -> int:
        """Standard normal numbers that a call takes: F + U."""
        return sum(self.kernel_sigma.shape)

    def call(self, inputs: tf.Tensor, noise: tf.Tensor | None = None) -> tf.Tensor:
        """From [B, F] to [B, U]; `noise` is standard normal, float32 [F + U], None means none."""
        if noise is None:
            return tf.matmul(inputs, self.kernel) + self.bias
        shaped = tf.sign(noise) * tf.sqrt(tf.abs(noise))
        rows, columns = tf.split(shaped, self.kernel_sigma.shape)
        kernel = self.kernel + self.kernel_sigma * (rows[:, None] * columns)  # [F, U]
        return tf.matmul(inputs, kernel) + self.bias + self.bias_sigma * columns  # [B, U]

    def get_config(self) -> dict[str, Any]:
        """What Keras writes into a file."""
        return super().get_config() | {
            "units": self.units,
            "sigma": self.sigma,
            "salt": self.salt,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


@keras.saving.register_keras_serializable("ps_dqn")
class QuantileEmbedding(precision.Unrounded):
    """Features times the cosine embedding of quantile fractions, as in IQN (arXiv:1806.06923).

    Args:
        num_cosines: cos(π i τ) for i below this.
        num_policy_quantiles: fractions, (i + ½) / number, where a call says none.
        kernel_initializer: of the dense layer from the cosines to F.
    """

    def __init__(
        self, num_cosines: int, num_policy_quantiles: int, kernel_initializer: Any, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.num_cosines = num_cosines
        self.num_policy_quantiles = num_policy_quantiles
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, features_shape: tuple[int | None, ...]) -> None:
        """Makes the dense layer's weights, [C, F] and [F]."""
        width = features_shape[-1]
        shape = (self.num_cosines, width)
        self.kernel = self.add_weight(shape, self.kernel_initializer, name="kernel")
        self.bias = self.add_weight((width,), "zeros", name="bias")

    def call(self, features: tf.Tensor, taus: tf.Tensor | None = None) -> tf.Tensor:
        """From features [B, F] and fractions [B, N] to [B, N, F]."""
        if taus is None:
            taus = atoms.midpoints(self.num_policy_quantiles)[None]  # [1, N]
        rows, number = tf.shape(taus)[0], taus.shape[1]
        angles = math.pi * tf.range(self.num_cosines, dtype=tf.float32)  # [C]
        cosines = tf.cos(tf.reshape(taus, [-1, 1]) * angles)  # [B·N, C]
        embedded = precision.product(cosines, self.kernel, self.compute_dtype) + self.bias
        embedded = tf.cast(tf.nn.relu(embedded), self.compute_dtype)  # [B·N, F]
        embedded = tf.reshape(embedded, [rows, number, self.bias.shape[0]])
        return tf.cast(features, self.compute_dtype)[:, None] * embedded  # [B, N, F]

    def get_config(self) -> dict[str, Any]:
        """What Keras writes into a file."""
        return super().get_config() | {
            "num_cosines": self.num_cosines,
            "num_policy_quantiles": self.num_policy_quantiles,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


@keras.saving.register_keras_serializable("ps_dqn")
class Standardize(keras.layers.Layer):
    """Takes a mean away and multiplies by a scale, neither of which is learned by gradients."""

    # In standard deviations; what is further away is as if it were there.
    LIMIT = 10.0

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Makes the mean and the scale, of the shape of a row."""
        self.mean = self.add_weight(input_shape[1:], "zeros", trainable=False, name="mean")
        self.scale = self.add_weight(input_shape[1:], "ones", trainable=False, name="scale")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """From [B, …] to the same shape."""
        mean, scale = tf.stop_gradient(self.mean), tf.stop_gradient(self.scale)
        return ops.clip((inputs - mean) * scale, -self.LIMIT, self.LIMIT)


class Factory:
    """Makes the layers of one network, each with its own seed, in the order of its calls."""

    def __init__(self, network: Network, seed: int, is_quantized: bool = False):
        """`is_quantized`: dense layers and convolutions are `quantized`'s."""
        self._network, self._is_quantized = network, is_quantized
        # What is first drawn does not depend on how much is.
        count = _MOST_SEEDS + 2 * len(network.hidden_sizes)
        self._seeds = iter(np.random.SeedSequence(seed).generate_state(count))
        self._salts = itertools.count()

    def outputs(self, width: int, scale: float) -> keras.layers.Layer:
        """A dense layer in float32, noisy where the network is; `scale` as for `_dense`."""
        return self._dense(width, scale, precision.FULL)

    def plain(self, width: int) -> keras.layers.Layer:
        """A dense layer without noise, as convolutions are."""
        return self._of_dense(width, self._initializer(2.0))

    def hidden(self, width: int) -> list[keras.layers.Layer]:
        """A dense layer with its normalisation and activation."""
        return [self._dense(width, 2.0), *self.activation()]

    def activation(self) -> list[keras.layers.Layer]:
        """The network's activation, after a normalisation of the last axis where it has one."""
        normal = [keras.layers.LayerNormalization()] if self._network.layer_norm else []
        return [*normal, keras.layers.Activation(self._network.activation)]

    def convolution(
        self, filters: int, size: int, stride: int, padding: str, is_residual: bool = False
    ) -> keras.layers.Layer:
        """A convolution of channels-last images; those of residual blocks may be bounded."""
        if self._is_quantized:
            return QuantizedConvolution(filters, size, stride, padding)
        is_bounded = is_residual and self._network.spectral_norm
        kind = SpectralConvolution if is_bounded else keras.layers.Conv2D
        return kind(filters, size, stride, padding, kernel_initializer=self._initializer(2.0))

    def patch_convolution(self, filters: int, size: int) -> keras.layers.Layer:
        """A convolution of small channels-last images, without stride and padding."""
        if self._is_quantized:
            return QuantizedConvolution(filters, size, 1, "valid")
        return PatchConvolution(filters, size, kernel_initializer=self._initializer(2.0))

    def quantile_embedding(self, num_cosines: int, num_policy_quantiles: int) -> QuantileEmbedding:
        """IQN's embedding of quantile fractions."""
        return QuantileEmbedding(num_cosines, num_policy_quantiles, self._initializer(2.0))

    def lstm(self, units: int, num_actions: int, scales_rewards: bool) -> LSTM:
        """The recurrent layer."""
        return LSTM(units, num_actions, int(next(self._seeds)), scales_rewards)

    def _dense(self, width: int, scale: float, dtype: str | None = None) -> keras.layers.Layer:
        """A dense layer, noisy where the network is; `scale` is its variance times F."""
        initializer = self._initializer(scale)
        if self._network.noisy:
            sigma, salt = self._network.noisy_sigma, next(self._salts)
            return NoisyDense(width, sigma, salt, initializer, dtype=dtype)
        return self._of_dense(width, initializer, dtype)

    def _of_dense(
        self, width: int, initializer: keras.initializers.Initializer, dtype: str | None = None
    ) -> keras.layers.Layer:
        if self._is_quantized:
            return QuantizedDense(width)
        return keras.layers.Dense(width, kernel_initializer=initializer, dtype=dtype)

    def _initializer(self, scale: float) -> keras.initializers.Initializer:
        return keras.initializers.VarianceScaling(
            scale, "fan_in", "truncated_normal", seed=int(next(self._seeds))
        )


def run(layers: Sequence[keras.layers.Layer], x: tf.Tensor, noise: tf.Tensor | None) -> tf.Tensor:
    """One layer after the other; the noisy ones with noise of a seed, int32 [2], or None."""
    noisy = [layer for layer in layers if isinstance(layer, NoisyDense)]
    drawn = dict.fromkeys(noisy)
    if noise is not None and noisy:
        # One call for all: XLA takes a quarter of a second to compile each.
        sizes = [layer.noise_size for layer in noisy]
        numbers = tf.random.stateless_normal([sum(sizes)], seeds.derive(noise, noisy[0].salt))
        drawn = dict(zip(noisy, tf.split(numbers, sizes), strict=True))
    for layer in layers:
        x = layer(x, drawn[layer]) if isinstance(layer, NoisyDense) else layer(x)
    return x
