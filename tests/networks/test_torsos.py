"""Torsos: convolutions written out in NumPy, and how observations become images."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError

NAMES = ("nature", "minatar", "impala")


def network(name: str, layer_norm: bool = False, width: float = 1) -> Network:
    """Without dense layers before the last, features are the torso's."""
    return Network(
        network=name,
        hidden_sizes=(4,),
        activation="relu",
        layer_norm=layer_norm,
        network_width=width,
    )


def spec(*shape: int, dtype: type = np.uint8) -> EnvironmentSpec:
    return EnvironmentSpec(shape, np.dtype(dtype), 2, None)


def build(config: Network, environment: EnvironmentSpec) -> networks.QNetwork:
    return networks.build(config, Value(value_distribution="none"), environment, seed=0)


def images(environment: EnvironmentSpec, count: int = 2) -> np.ndarray:
    rng = np.random.default_rng(1)
    seen = rng.integers(0, 256, (count, *environment.observation_shape), np.uint8)
    return seen if environment.observation_dtype == np.uint8 else (seen / 255).astype(np.float32)


def features(built: networks.QNetwork, seen: np.ndarray) -> np.ndarray:
    return built.features(tf.constant(built.initial), seen).numpy()


def layers_of(built: networks.QNetwork, kind: type) -> list[keras.layers.Layer]:
    torso = built.as_keras().get_layer("torso")
    return [layer for layer in torso.layers if isinstance(layer, kind)]


def convolved(x: np.ndarray, layer: keras.layers.Conv2D, stride: int) -> np.ndarray:
    """A convolution without padding of [B, H, W, C], one output pixel at a time."""
    kernel, bias = (each.numpy() for each in layer.weights)
    size = kernel.shape[0]
    rows = (x.shape[1] - size) // stride + 1
    columns = (x.shape[2] - size) // stride + 1
    out = np.zeros((len(x), rows, columns, kernel.shape[-1]))
    for i in range(rows):
        for j in range(columns):
            patch = x[:, i * stride : i * stride + size, j * stride : j * stride + size]
            out[:, i, j] = np.einsum("bhwc,hwco->bo", patch, kernel) + bias
    return out


def padded(x: np.ndarray, before: int, after: int, value: float) -> np.ndarray:
    around = [(0, 0), (before, after), (before, after), (0, 0)]
    return np.pad(x, around, constant_values=value)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def normalised(x: np.ndarray) -> np.ndarray:
    """Of the channels of each pixel; scale 1 and offset 0, as at the start."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)


@pytest.mark.parametrize(
    ("name", "strides", "shape"),
    [("nature", (4, 2, 1), (40, 36, 3)), ("minatar", (1,), (6, 5, 4))],
)
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer_norm"])
def test_convolutions_without_padding(
    name: str, strides: tuple[int, ...], shape: tuple[int, ...], layer_norm: bool
) -> None:
    built = build(network(name, layer_norm), spec(*shape))
    seen = images(spec(*shape))
    x = seen / 255
    convolutions = layers_of(built, keras.layers.Conv2D)
    for layer, stride in zip(convolutions, strides, strict=True):
        x = convolved(x, layer, stride)
        x = relu(normalised(x) if layer_norm else x)
    expected = x.reshape(2, -1)
    assert np.count_nonzero(expected) > expected.size // 10
    np.testing.assert_allclose(features(built, seen), expected, rtol=1e-3, atol=1e-4)


def test_impala_is_residual() -> None:
    built = build(network("impala"), spec(5, 7, 2))
    seen = images(spec(5, 7, 2))
    convolutions = iter(layers_of(built, keras.layers.Conv2D))

    def convolution(x: np.ndarray) -> np.ndarray:
        return convolved(padded(x, 1, 1, 0), next(convolutions), 1)

    x = seen / 255
    for _ in range(3):
        x = convolution(x)
        # 3x3 windows, two apart; odd sizes have a border on both sides, even ones at the end.
        around = [(0, 0), *(((size % 2), 1) for size in x.shape[1:3]), (0, 0)]
        edge = np.pad(x, around, constant_values=-np.inf)
        rows, columns = -(-x.shape[1] // 2), -(-x.shape[2] // 2)
        pixels = [
            edge[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].max((1, 2))
            for i in range(rows)
            for j in range(columns)
        ]
        x = np.stack(pixels, 1).reshape(2, rows, columns, -1)
        for _ in range(2):
            x = x + convolution(relu(convolution(relu(x))))
    assert next(convolutions, None) is None
    np.testing.assert_allclose(features(built, seen), relu(x).reshape(2, -1), rtol=1e-3, atol=1e-3)


def test_filters_sizes_and_strides_are_the_papers() -> None:
    def shapes(name: str, width: float = 1) -> list[tuple[int, ...]]:
        built = build(network(name, width=width), spec(84, 84, 4))
        return [layer.kernel.shape for layer in layers_of(built, keras.layers.Conv2D)]

    assert shapes("nature") == [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64)]
    assert shapes("nature", 0.5) == [(8, 8, 4, 16), (4, 4, 16, 32), (3, 3, 32, 32)]
    assert shapes("minatar") == [(3, 3, 4, 16)]
    block16, block32 = [(3, 3, 16, 16)] * 4, [(3, 3, 32, 32)] * 4
    first, second, third = (3, 3, 4, 16), (3, 3, 16, 32), (3, 3, 32, 32)
    assert shapes("impala") == [first, *block16, second, *block32, third, *block32]
    assert [shape[-1] for shape in shapes("impala", 2)] == 5 * [32] + 10 * [64]
    assert build(network("nature"), spec(84, 84, 4)).num_parameters == (
        (64 * 4 * 32 + 32) + (16 * 32 * 64 + 64) + (9 * 64 * 64 + 64)  # convolutions
        + (7 * 7 * 64 * 4 + 4) + (4 * 2 + 2)  # dense
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_layer_norm_comes_before_each_activation(name: str) -> None:
    normal = build(network(name, layer_norm=True), spec(40, 40, 1))
    number = len(layers_of(normal, keras.layers.Activation))
    assert number == {"nature": 3, "minatar": 1, "impala": 13}[name]
    assert len(layers_of(normal, keras.layers.LayerNormalization)) == number
    for layer in layers_of(normal, keras.layers.Activation):
        before = layer.input._keras_history.operation
        assert isinstance(before, keras.layers.LayerNormalization)
    plain = build(network(name), spec(40, 40, 1))
    assert layers_of(plain, keras.layers.LayerNormalization) == []


@pytest.mark.parametrize("name", NAMES)
def test_activation_takes_effect(name: str) -> None:
    config = dataclasses.replace(network(name), activation="tanh")
    built = build(config, spec(40, 40, 1))
    found = features(built, images(spec(40, 40, 1)))
    assert -1 <= found.min() < -0.1, "a relu has no such values"
    assert found.max() <= 1


@pytest.mark.parametrize(
    ("given", "channels_last"),
    [
        ((3, 6, 7), lambda x: np.moveaxis(x, 1, -1)),
        ((4, 6, 7, 3), lambda x: np.concatenate(list(np.moveaxis(x, 1, 0)), axis=-1)),
        ((6, 7), lambda x: x[..., None]),
        ((6, 7, 3), lambda x: x),
        ((6, 7, 8), lambda x: np.moveaxis(x, 1, -1)),
        ((7, 6, 8), lambda x: x),
        ((6, 6, 6), lambda x: x),
    ],
    ids=["stack", "stack_of_colour", "grey", "colour", "long_stack", "many_channels", "cube"],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_become_channels_last(given, channels_last, dtype: type) -> None:
    built = build(network("minatar"), spec(*given, dtype=dtype))
    seen = images(spec(*given, dtype=dtype))
    (convolution,) = layers_of(built, keras.layers.Conv2D)
    image = channels_last(seen) / (255 if dtype == np.uint8 else 1)
    expected = relu(convolved(image, convolution, 1)).reshape(2, -1)
    np.testing.assert_allclose(features(built, seen), expected, rtol=1e-4, atol=1e-5)


def test_bytes_are_scaled_and_floats_are_not() -> None:
    of_bytes = build(network("minatar"), spec(8, 8, 2))
    of_floats = build(network("minatar"), spec(8, 8, 2, dtype=np.float32))
    seen = images(spec(8, 8, 2))
    scaled = (seen / 255).astype(np.float32)
    np.testing.assert_allclose(
        features(of_bytes, seen), features(of_floats, scaled), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(  # positively homogeneous: no biases yet, and a relu
        features(of_floats, 255 * scaled), 255 * features(of_floats, scaled), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 8, 8, 1)])
def test_what_is_no_image_is_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        build(network(name), spec(*shape))
    assert str(caught.value) == (
        f"--network={name}: is for images, and observations here have the shape {shape}: use "
        f"--network=mlp"
    )


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("nature", (4, 35, 84), r"at least 36x36 .*\(4, 35, 84\) are 35x84: use --network=minatar"),
        (
            "nature",
            (10, 10, 4),
            "at least 36x36 .* are 10x10: use --network=minatar or --network=mlp",
        ),
        ("minatar", (2, 9), r"at least 3x3 .*\(2, 9\) are 2x9"),
        ("minatar", (4, 5, 2, 3), "at least 3x3 .* are 5x2: use --network=mlp"),
    ],
)
def test_images_that_are_too_small_are_refused(
    name: str, shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(UsageError, match=f"--network={name}: needs images of {said}"):
        build(network(name), spec(*shape))


@pytest.mark.parametrize(
    ("name", "least"), [("nature", (36, 36)), ("minatar", (3, 3)), ("impala", (1, 1))]
)
def test_smallest_images_are_accepted(name: str, least: tuple[int, int]) -> None:
    built = build(network(name), spec(*least))
    channels = {"nature": 64, "minatar": 16, "impala": 32}[name]
    assert features(built, images(spec(*least))).shape == (2, channels)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mlp", False),
        ("minatar", False),
        ("nature", True),
        ("impala", True),
        ("support.user_networks:mlp", False),
        ("support.user_networks:any_image", True),
    ],
)
def test_network_knows_whether_keras_convolves_in_it(name: str, expected: bool) -> None:
    assert build(network(name), spec(36, 36, 1)).has_convolutions is expected


def test_mlp_flattens_images() -> None:
    built = build(dataclasses.replace(network("mlp"), hidden_sizes=()), spec(3, 4, 2))
    seen = images(spec(3, 4, 2))
    np.testing.assert_allclose(features(built, seen), seen.reshape(2, 24) / 255, rtol=1e-6)
