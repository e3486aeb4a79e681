"""Torsos: what turns observations into one row of features before the hidden layers.

Shapes: B rows, H height, W width, C channels, k frames.
"""

import keras
import numpy as np

from ps_dqn.config import Network
from ps_dqn.environments import EnvironmentSpec, images
from ps_dqn.networks import inputs
from ps_dqn.networks.convolutions import GridMaximum
from ps_dqn.networks.layers import Factory

# Units of the layer for the parts of an observation that are no images, where others are.
REST = 64
_IMPALA_CHANNELS = (16, 32, 32)


def build(
    network: Network, environment: EnvironmentSpec, factory: Factory
) -> list[keras.layers.Layer]:
    """The layers from observations [B, …] to features [B, F], float32; uint8 and bool become 0..1.

    `mlp` flattens. The others are convolutional, each activation after a LayerNormalization of the
    channels where `layer_norm` says so; `network_width` times as many channels as are said here:

    - `nature`: 32 8x8/4, 64 4x4/2, 64 3x3/1, without padding (Mnih et al. 2015).
    - `minatar`: 16 3x3/1, without padding (Young and Tian 2019, arXiv:1903.03176).
    - `impala`: 16, 32 and 32 channels, each a 3x3 convolution, a 3x3/2
      maximum and two residual blocks (Espeholt et al. 2018, arXiv:1802.01561); with `pooled_size`
      the maxima over a grid of what they find, so that larger images do not make it larger.

    Images become channels-last by this rule: [k, H, W, C] and [k, H, W] are stacks of frames,
    whose k·C channels are the frames' one after the other, where the first of three axes counts
    as k if it is smaller than both others; any other three axes are [H, W, C], and two [H, W].

    Of observations of several parts each image goes through convolutions of its own; the other
    parts, numbers of things one-hot, are joined to their features after one layer of `REST` units.
    `mlp` joins all parts as they are.

    Raises:
        UsageError: convolutions do not fit the observations' shape.
    """
    images.check(network.network, environment)
    if environment.parts:
        return [_of_parts(network, environment, factory)]
    shape, dtype = environment.observation_shape, environment.observation_dtype
    if network.network == "mlp":
        return [*_scaling(dtype), *([] if len(shape) == 1 else [keras.layers.Flatten()])]
    observations = inputs.as_keras(environment)
    x = _convolved(observations, shape, dtype, network, factory)
    return [keras.Model(observations, x, name="torso")]


def _of_parts(network: Network, environment: EnvironmentSpec, factory: Factory) -> keras.Model:
    """Images through the convolutions, the rest as it is or through a layer of its own, joined."""
    parts, given = environment.parts, inputs.as_keras(environment)
    seen = [part for part in parts if images.is_image(network.network, part)]
    joined, rest = [], []
    for part in parts:
        x = inputs.by_name(given)[part.name]
        if part in seen:
            shape = (*environment.frames, *part.shape)
            joined.append(_convolved(x, shape, part.dtype, network, factory))
            continue
        x = inputs.read(part, x)
        for layer in _scaling(part.dtype):
            x = layer(x)
        rest.append(keras.layers.Flatten()(x))
    if seen and rest:
        # Features of the images are hundreds, and would drown a handful of numbers.
        rest = [_activated(factory.plain(REST)(_concatenated(rest)), factory)]
    return keras.Model(given, _concatenated(joined + rest), name="torso")


def _concatenated(features: list[keras.KerasTensor]) -> keras.KerasTensor:
    return features[0] if len(features) == 1 else keras.layers.Concatenate()(features)


def _convolved(
    x: keras.KerasTensor,
    shape: tuple[int, ...],
    dtype: np.dtype,
    network: Network,
    factory: Factory,
) -> keras.KerasTensor:
    """Images [B, *shape] as features [B, F]."""
    for layer in [*_scaling(dtype), *_channels_last(shape)]:
        x = layer(x)
    if network.network == "impala":
        x = _impala(x, network, factory)
    if network.network == "minatar":
        x = _activated(factory.patch_convolution(_widened(16, network), 3)(x), factory)
    if network.network == "nature":
        for channels, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            filters = _widened(channels, network)
            x = _activated(factory.convolution(filters, size, stride, "valid")(x), factory)
    return keras.layers.Flatten()(x)


def _impala(x: keras.KerasTensor, network: Network, factory: Factory) -> keras.KerasTensor:
    for channels in _IMPALA_CHANNELS:
        filters = _widened(channels, network)
        x = factory.convolution(filters, 3, 1, "same")(x)
        x = keras.layers.MaxPooling2D(3, 2, "same")(x)
        for _ in range(2):
            y = x
            for _ in range(2):
                y = _activated(y, factory)
                y = factory.convolution(filters, 3, 1, "same", is_residual=True)(y)
            x = keras.layers.Add()([x, y])
    x = _activated(x, factory)
    return GridMaximum(network.pooled_size)(x) if network.pooled_size else x


def _widened(channels: int, network: Network) -> int:
    return max(1, round(channels * network.network_width))


def _activated(x: keras.KerasTensor, factory: Factory) -> keras.KerasTensor:
    for layer in factory.activation():
        x = layer(x)
    return x


def _scaling(dtype: np.dtype) -> list[keras.layers.Layer]:
    scale = {np.dtype(np.uint8): 1 / 255, np.dtype(np.bool_): 1.0}.get(dtype)
    return [] if scale is None else [keras.layers.Rescaling(scale)]


def _channels_last(shape: tuple[int, ...]) -> list[keras.layers.Layer]:
    """Layers from observations to [B, H, W, C]; TensorFlow permutes floats faster than bytes."""
    image = images.channels_last(shape)
    if len(shape) == 4:
        return [keras.layers.Permute((2, 3, 1, 4)), keras.layers.Reshape(image)]
    if len(shape) == 2:
        return [keras.layers.Reshape(image)]
    return [] if image == shape else [keras.layers.Permute((2, 3, 1))]
