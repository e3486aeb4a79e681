"""Torsos: what turns observations into one row of features before the hidden layers.

Shapes: B rows, H height, W width, C channels, k frames.
"""

import keras
import numpy as np

from ps_dqn.config import Network
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.networks.layers import Factory

# Least height and width of an image: what the convolutions without padding leave one pixel of.
LEAST = {"nature": 36, "minatar": 3, "impala": 1}
_IMPALA_CHANNELS = (16, 32, 32)


def build(
    network: Network, environment: EnvironmentSpec, factory: Factory
) -> list[keras.layers.Layer]:
    """The layers from observations [B, …] to features [B, F], float32; uint8 and bool become 0..1.

    `mlp` flattens. The others are convolutional, each activation after a LayerNormalization of the
    channels where `layer_norm` says so:

    - `nature`: 32 8x8/4, 64 4x4/2, 64 3x3/1, without padding (Mnih et al. 2015).
    - `minatar`: 16 3x3/1, without padding (Young and Tian 2019, arXiv:1903.03176).
    - `impala`: 16, 32 and 32 channels times `network_width`, each a 3x3 convolution, a 3x3/2
      maximum and two residual blocks (Espeholt et al. 2018, arXiv:1802.01561).

    Images become channels-last by this rule: [k, H, W, C] and [k, H, W] are stacks of frames,
    whose k·C channels are the frames' one after the other, where the first of three axes counts
    as k if it is smaller than both others; any other three axes are [H, W, C], and two [H, W].

    Raises:
        UsageError: convolutions do not fit the observations' shape.
    """
    if network.network == "mlp":
        flat = len(environment.observation_shape) == 1
        return [*_scaling(environment), *([] if flat else [keras.layers.Flatten()])]
    inputs = keras.Input(environment.observation_shape, dtype=environment.observation_dtype.name)
    x = inputs
    for layer in [*_channels_last(network.network, environment), *_scaling(environment)]:
        x = layer(x)
    if network.network == "impala":
        x = _impala(x, network.network_width, factory)
    if network.network == "minatar":
        x = _activated(factory.patch_convolution(16, 3)(x), factory)
    if network.network == "nature":
        for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            x = _activated(factory.convolution(filters, size, stride, "valid")(x), factory)
    return [keras.Model(inputs, keras.layers.Flatten()(x), name="torso")]


def _impala(x: keras.KerasTensor, width: int, factory: Factory) -> keras.KerasTensor:
    for channels in _IMPALA_CHANNELS:
        x = factory.convolution(width * channels, 3, 1, "same")(x)
        x = keras.layers.MaxPooling2D(3, 2, "same")(x)
        for _ in range(2):
            y = x
            for _ in range(2):
                y = factory.convolution(width * channels, 3, 1, "same")(_activated(y, factory))
            x = keras.layers.Add()([x, y])
    return _activated(x, factory)


def _activated(x: keras.KerasTensor, factory: Factory) -> keras.KerasTensor:
    for layer in factory.activation():
        x = layer(x)
    return x


def _scaling(environment: EnvironmentSpec) -> list[keras.layers.Layer]:
    scales = {np.dtype(np.uint8): 1 / 255, np.dtype(np.bool_): 1.0}
    scale = scales.get(environment.observation_dtype)
    return [] if scale is None else [keras.layers.Rescaling(scale)]


def _channels_last(name: str, environment: EnvironmentSpec) -> list[keras.layers.Layer]:
    """Layers from observations to [B, H, W, C]; before the scaling, while pixels are small."""
    shape = environment.observation_shape
    if len(shape) not in (2, 3, 4):
        raise UsageError(
            f"--network={name}: is for images, and observations here have the shape {shape}: use "
            f"--network=mlp"
        )
    image: tuple[int, ...]
    layers: list[keras.layers.Layer]
    if len(shape) == 2:
        image, layers = (*shape, 1), [keras.layers.Reshape((*shape, 1))]
    elif len(shape) == 4:
        frames, height, width, channels = shape
        image = (height, width, frames * channels)
        layers = [keras.layers.Permute((2, 3, 1, 4)), keras.layers.Reshape(image)]
    elif shape[0] < min(shape[1:]):
        image, layers = (*shape[1:], shape[0]), [keras.layers.Permute((2, 3, 1))]
    else:
        image, layers = shape, []
    if min(image[:2]) < LEAST[name]:
        smaller = "" if name == "minatar" else "--network=minatar or "
        raise UsageError(
            f"--network={name}: needs images of at least {LEAST[name]}x{LEAST[name]} pixels, and "
            f"observations of the shape {shape} are {image[0]}x{image[1]}: use {smaller}"
            f"--network=mlp"
        )
    return layers
