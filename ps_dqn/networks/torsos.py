"""Torsos: what turns observations into one row of features before the hidden layers.

Shapes: B rows, H height, W width, C channels, k frames.
"""

import keras
import numpy as np

from ps_dqn.config import Network
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.environments.parts import Part
from ps_dqn.environments.specification import image_axes
from ps_dqn.errors import UsageError
from ps_dqn.networks import inputs
from ps_dqn.networks.convolutions import GridMaximum
from ps_dqn.networks.layers import Factory

# Least height and width of an image: what the convolutions without padding leave one pixel of.
LEAST = {"nature": 36, "minatar": 3, "impala": 1}
# Units of the layer for the parts of an observation that are no images, where others are.
REST = 64
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
    images = [] if network.network == "mlp" else [p for p in parts if _is_image(network, p)]
    if not images and network.network != "mlp":
        shown = environment.describe_observation()
        raise UsageError(
            f"--network={network.network}: is for images, and no part of the observations here is "
            f"one that is large enough ({shown}): use --network=mlp"
        )
    joined, rest = [], []
    for part in parts:
        x = inputs.by_name(given)[part.name]
        if part in images:
            shape = (*environment.frames, *part.shape)
            joined.append(_convolved(x, shape, part.dtype, network, factory))
            continue
        x = inputs.read(part, x)
        for layer in _scaling(part.dtype):
            x = layer(x)
        rest.append(keras.layers.Flatten()(x))
    if images and rest:
        # Features of the images are hundreds, and would drown a handful of numbers.
        rest = [_activated(factory.plain(REST)(_concatenated(rest)), factory)]
    return keras.Model(given, _concatenated(joined + rest), name="torso")


def _is_image(network: Network, part: Part) -> bool:
    if part.categories or len(part.shape) not in (2, 3):
        return False
    image, _ = _channels_last(part.shape)
    return min(image[:2]) >= LEAST[network.network]


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
    for layer in [*_checked(network.network, shape), *_scaling(dtype)]:
        x = layer(x)
    if network.network == "impala":
        x = _impala(x, network, factory)
    if network.network == "minatar":
        x = _activated(factory.patch_convolution(16, 3)(x), factory)
    if network.network == "nature":
        for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            x = _activated(factory.convolution(filters, size, stride, "valid")(x), factory)
    return keras.layers.Flatten()(x)


def _impala(x: keras.KerasTensor, network: Network, factory: Factory) -> keras.KerasTensor:
    width = network.network_width
    for channels in _IMPALA_CHANNELS:
        x = factory.convolution(width * channels, 3, 1, "same")(x)
        x = keras.layers.MaxPooling2D(3, 2, "same")(x)
        for _ in range(2):
            y = x
            for _ in range(2):
                y = _activated(y, factory)
                y = factory.convolution(width * channels, 3, 1, "same", is_residual=True)(y)
            x = keras.layers.Add()([x, y])
    x = _activated(x, factory)
    return GridMaximum(network.pooled_size)(x) if network.pooled_size else x


def _activated(x: keras.KerasTensor, factory: Factory) -> keras.KerasTensor:
    for layer in factory.activation():
        x = layer(x)
    return x


def _scaling(dtype: np.dtype) -> list[keras.layers.Layer]:
    scale = {np.dtype(np.uint8): 1 / 255, np.dtype(np.bool_): 1.0}.get(dtype)
    return [] if scale is None else [keras.layers.Rescaling(scale)]


def _checked(name: str, shape: tuple[int, ...]) -> list[keras.layers.Layer]:
    """Layers from observations to [B, H, W, C]; before the scaling, while pixels are small."""
    if len(shape) not in (2, 3, 4):
        raise UsageError(
            f"--network={name}: is for images, and observations here have the shape {shape}: use "
            f"--network=mlp"
        )
    image, layers = _channels_last(shape)
    if min(image[:2]) < LEAST[name]:
        smaller = "" if name == "minatar" else "--network=minatar or "
        raise UsageError(
            f"--network={name}: needs images of at least {LEAST[name]}x{LEAST[name]} pixels, and "
            f"observations of the shape {shape} are {image[0]}x{image[1]}: use {smaller}"
            f"--network=mlp"
        )
    return layers


def _channels_last(shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[keras.layers.Layer]]:
    """What shape [H, W, C] an image of two to four axes becomes, and the layers that make it so."""
    if len(shape) == 2:
        image: tuple[int, ...] = (*shape, 1)
        return image, [keras.layers.Reshape(image)]
    if len(shape) == 4:
        frames, height, width, channels = shape
        image = (height, width, frames * channels)
        return image, [keras.layers.Permute((2, 3, 1, 4)), keras.layers.Reshape(image)]
    if image_axes(shape) == (1, 2):
        return (*shape[1:], shape[0]), [keras.layers.Permute((2, 3, 1))]
    return shape, []
