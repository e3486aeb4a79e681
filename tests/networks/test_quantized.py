"""Layers of 8 bits against integers in NumPy, and networks of them against those in float32."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import small_networks
from support.option_values import A3C
from support.tiers import tiered

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks.quantized import QuantizedConvolution, QuantizedDense, quantize

SCREEN = EnvironmentSpec((36, 36, 2), np.dtype(np.uint8), 3, None)
KINDS: dict[str, tuple[EnvironmentSpec, dict[str, Any]]] = {
    "dueling": (small_networks.VECTOR, {"dueling": True, "layer_norm": True}),
    "normalized_c51": (
        small_networks.VECTOR,
        {"value_distribution": "c51", "normalize_observations": "on"},
    ),
    "iqn": (small_networks.VECTOR, {"value_distribution": "iqn"}),
    "recurrent": (small_networks.VECTOR, {"recurrent_size": 8}),
    "a3c": (small_networks.VECTOR, A3C),
    "nature": (SCREEN, {"network": "nature"}),
    "minatar": (small_networks.IMAGE, {"network": "minatar"}),
    "impala": (SCREEN, {"network": "impala"}),
}


def test_scales_by_hand() -> None:
    x = np.float32([[1.27, -0.5, 0.004], [0, 0, 0], [-2.54, 2.53, 0.021]])
    integers, scales = quantize(tf.constant(x), [1])
    # 127 steps of 0.01 and of 0.02; -128 is never one. 0.4, 1.05 and 126.5 steps are rounded.
    assert integers.numpy().tolist() == [[127, -50, 0], [0, 0, 0], [-127, 126, 1]]
    np.testing.assert_allclose(scales[:, 0], [0.01, 0, 0.02], rtol=1e-6, atol=1e-20)


def test_no_number_is_further_off_than_half_a_scale() -> None:
    x = np.random.default_rng(1).normal(size=(40, 30)).astype(np.float32) ** 3
    integers, scales = quantize(tf.constant(x), [0])
    assert scales.shape == (1, 30)
    assert integers.dtype == tf.int8
    integers, scales = integers.numpy().astype(np.int64), scales.numpy()
    assert (np.abs(integers * scales - x) <= 0.5001 * scales).all()
    assert (np.abs(integers).max(axis=0) == 127).all()


def integers_of(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    scale = np.abs(x).max(axis=axes, keepdims=True) / np.float32(127)
    return np.round(x / scale).astype(np.int64), scale


def filled(layer: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Gives a layer a kernel of integers, its scales and a bias, as `quantized` does."""
    rng = np.random.default_rng(2)
    kernel = rng.normal(size=shape).astype(np.float32) * np.float32([1, 100, 0.01])
    integers, scales = integers_of(kernel, tuple(range(len(shape) - 1)))
    bias = rng.normal(size=3).astype(np.float32)
    layer.set_weights([integers.astype(np.int8), scales.ravel(), bias])
    return integers * scales, bias


def test_a_dense_layer_multiplies_integers() -> None:
    layer = QuantizedDense(3)
    layer.build((None, 200))
    kernel, bias = filled(layer, (200, 3))
    x = np.random.default_rng(3).normal(size=(5, 200)).astype(np.float32)
    x[1] *= 1e4  # has a scale of its own
    integers, scales = integers_of(x, (1,))
    wanted = (integers * scales).astype(np.float64) @ kernel + bias
    np.testing.assert_allclose(layer(x), wanted, rtol=1e-4, atol=1e-4)
    compiled = tf.function(layer, jit_compile=True)(x)
    np.testing.assert_allclose(compiled, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "stride", "padding", "image"),
    [
        (3, 1, "valid", (6, 5)),
        (4, 2, "valid", (9, 10)),
        (3, 1, "same", (5, 4)),
        (3, 2, "same", (6, 7)),
    ],
)
def test_a_convolution_is_that_of_keras_of_what_was_rounded(size, stride, padding, image) -> None:
    layer = QuantizedConvolution(3, size, stride, padding)
    layer.build((None, *image, 2))
    kernel, bias = filled(layer, (size, size, 2, 3))
    x = np.random.default_rng(3).normal(size=(4, *image, 2)).astype(np.float32)
    x[1] *= 1e3
    integers, scales = integers_of(x, (1, 2, 3))
    usual = keras.layers.Conv2D(3, size, stride, padding)
    usual.build((None, *image, 2))
    usual.set_weights([kernel.astype(np.float32), bias])
    wanted = usual((integers * scales).astype(np.float32))
    np.testing.assert_allclose(layer(x), wanted, rtol=1e-3, atol=1e-3)


def built(kind: str) -> tuple[Any, Any]:
    spec, values = KINDS[kind]
    options = {"value_distribution": "none", "hidden_sizes": (32, 16), "layer_norm": False}
    config = Config.from_values(options | values)
    whose = config.network, config.value, spec, 3
    return networks.build(*whose), networks.build(*whose, "int8")


@pytest.mark.parametrize(
    "kind", tiered(KINDS, quick=KINDS.keys() - {"impala", "nature"}, slow=("nature",))
)
def test_a_network_acts_almost_as_in_float32(kind: str) -> None:
    full, rounded = built(kind)
    spec, num = KINDS[kind][0], 60
    weights = rounded.quantized(full.cut(tf.constant(full.initial)))
    kernels = [each for each in weights if each.dtype == tf.int8]
    assert len(kernels) >= 2
    assert {each.dtype for each in weights} == {tf.int8, tf.float32}
    shown = small_networks.observations(spec, num), np.zeros((num, full.state_size), np.float32)
    wanted, state, _ = full.act(tf.constant(full.initial), *shown)
    found, rounded_state, _ = tf.function(rounded.act, jit_compile=True)(weights, *shown)
    assert np.mean(found == wanted) >= 0.9
    np.testing.assert_allclose(rounded_state, state, atol=0.05)
    if not full.state_size:
        outputs = [
            each.outputs(held, each.features(held, shown[0]))
            for each, held in ((full, tf.constant(full.initial)), (rounded, weights))
        ]
        error = tf.reduce_max(tf.abs(outputs[1] - outputs[0])) / tf.reduce_max(tf.abs(outputs[0]))
        assert 1e-4 < float(error) < 0.1
