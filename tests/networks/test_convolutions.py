"""Layers for images that Keras lacks, against NumPy."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks.convolutions import GridMaximum, SpectralConvolution, largest_singular_value


def kernel(seed: int, shape: tuple[int, ...] = (3, 3, 16, 32)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 0.1


def of_svd(values: np.ndarray) -> float:
    matrix = values.reshape(-1, values.shape[-1]).astype(np.float64)
    return float(np.linalg.svd(matrix, compute_uv=False)[0])


@pytest.mark.parametrize("shape", [(3, 3, 16, 32), (3, 3, 32, 64), (1, 1, 2, 1), (3, 3, 1, 16)])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_largest_singular_value_is_that_of_the_svd(
    shape: tuple[int, ...], scale: float
) -> None:
    for seed in range(5):
        values = kernel(seed, shape) * np.float32(scale)
        found = float(largest_singular_value(tf.constant(values)))
        assert found == pytest.approx(of_svd(values), rel=5e-3)
        assert found <= of_svd(values) * (1 + 1e-3)


def test_two_equal_singular_values_are_no_trouble() -> None:
    values = np.eye(4, dtype=np.float32).reshape(2, 2, 1, 4) * 3
    assert float(largest_singular_value(tf.constant(values))) == pytest.approx(3)


def test_a_kernel_of_zeros_gives_numbers() -> None:
    layer = SpectralConvolution(2, 3, padding="same", kernel_initializer="zeros")
    with tf.GradientTape() as tape:
        found = layer(tf.ones([1, 4, 4, 1]))
    assert (found.numpy() == 0).all()
    assert np.isfinite(tape.gradient(found, layer.kernel).numpy()).all()


def test_its_gradient_is_that_of_the_singular_value() -> None:
    values = kernel(3, (2, 2, 2, 3)).astype(np.float64)
    variable = tf.constant(values.astype(np.float32))
    with tf.GradientTape() as tape:
        tape.watch(variable)
        found = largest_singular_value(variable)
    slopes = np.zeros_like(values)
    for place in np.ndindex(values.shape):
        moved = [values.copy(), values.copy()]
        moved[0][place] += 1e-5
        moved[1][place] -= 1e-5
        slopes[place] = (of_svd(moved[0]) - of_svd(moved[1])) / 2e-5
    np.testing.assert_allclose(tape.gradient(found, variable).numpy(), slopes, atol=2e-3)


def test_a_bounded_convolution_is_the_plain_one_with_a_divided_kernel() -> None:
    images = np.random.default_rng(0).normal(size=(2, 5, 6, 3)).astype(np.float32)
    drawn = keras.initializers.GlorotUniform(seed=1)
    layer = SpectralConvolution(4, 3, 1, "same", kernel_initializer=drawn)
    found = layer(images).numpy()
    divided = layer.kernel.numpy() / of_svd(layer.kernel.numpy())
    plain = tf.nn.conv2d(images, divided.astype(np.float32), 1, "SAME") + layer.bias
    np.testing.assert_allclose(found, plain.numpy(), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("height", "width", "cells"), [(11, 11, 6), (12, 6, 6), (2, 5, 3)])
def test_each_cell_has_its_maximum(height: int, width: int, cells: int) -> None:
    images = np.random.default_rng(0).normal(size=(2, height, width, 3)).astype(np.float32)
    found = GridMaximum(cells)(images).numpy()
    assert found.shape == (2, cells, cells, 3)
    for i in range(cells):
        for j in range(cells):
            rows = slice(int(np.floor(i * height / cells)), int(np.ceil((i + 1) * height / cells)))
            columns = slice(int(np.floor(j * width / cells)), int(np.ceil((j + 1) * width / cells)))
            assert (found[:, i, j] == images[:, rows, columns].max(axis=(1, 2))).all()


def test_a_network_with_both_acts_learns_and_is_saved(tmp_path: pathlib.Path) -> None:
    network = Network(
        network="impala", hidden_sizes=(8,), spectral_norm=True, pooled_size=3, layer_norm=False
    )
    spec = EnvironmentSpec((20, 20, 2), np.dtype(np.uint8), 3, None)
    built = networks.build(network, Value(), spec, seed=0)
    seen = np.random.default_rng(0).integers(0, 256, (4, 20, 20, 2), np.uint8)
    parameters = tf.constant(built.initial)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        features = built.features(parameters, seen)
        total = tf.reduce_sum(built.outputs(parameters, features) ** 2)
    assert features.shape == (4, 3 * 3 * 32)
    gradient = tape.gradient(total, parameters).numpy()
    assert np.isfinite(gradient).all()
    assert (gradient != 0).mean() > 0.5
    torso = built.as_keras().get_layer("torso").layers
    assert sum(isinstance(layer, SpectralConvolution) for layer in torso) == 12
    built.as_keras().save(tmp_path / "network.keras")
    again = keras.models.load_model(tmp_path / "network.keras")
    np.testing.assert_array_equal(again(seen), built.as_keras()(seen))
