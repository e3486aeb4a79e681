"""Convolutions that NumPy computes, against Keras's and against the whole networks of images."""

import itertools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import small_networks

from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.policy import numpy_network, numpy_steps
from ps_dqn.policy.plain import plain

C51 = Value(value_distribution="c51", num_atoms=5, v_min=-2.0, v_max=2.0)
POLICY = Value(algorithm="a3c", double_dqn=False)
BASE: dict[str, Any] = {"hidden_sizes": (16, 8), "layer_norm": False}
# What is seen, in which dtype, the network, and what it says of values.
ENCODERS: dict[str, tuple[tuple[int, ...], str, dict[str, Any], Value]] = {
    "minatar": ((10, 10, 4), "bool", {"network": "minatar"}, small_networks.NONE),
    "minatar, numbers": (
        *((5, 7, 3), "float32"),
        {"network": "minatar", "network_width": 0.5, "normalize_observations": "on"},
        C51,
    ),
    "minatar, grey frames": ((3, 9, 8), "uint8", {"network": "minatar", "noisy": True}, POLICY),
    "minatar, coloured frames": (
        *((2, 9, 8, 3), "uint8", {"network": "minatar", "layer_norm": True}),
        small_networks.NONE,
    ),
    "nature": ((4, 84, 84), "uint8", {"network": "nature"}, small_networks.NONE),
    "nature, all else": (
        (37, 44, 2),
        "uint8",
        {"network": "nature", "layer_norm": True, "dueling": True, "noisy": True},
        C51,
    ),
    "impala": ((4, 20, 17), "uint8", {"network": "impala"}, small_networks.NONE),
    "impala, bounded": (
        *((21, 16, 3), "uint8"),
        {"network": "impala", "spectral_norm": True, "pooled_size": 2, "dueling": True},
        small_networks.NONE,
    ),
    "impala, all else": (
        *((12, 13), "uint8"),
        {
            **{"network": "impala", "spectral_norm": True, "pooled_size": 3, "layer_norm": True},
            **{"noisy": True, "activation": "silu", "network_width": 0.5},
        },
        C51,
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_network_of_images_has_the_same_values(name: str) -> None:
    shape, dtype, options, value = ENCODERS[name]
    spec = EnvironmentSpec(shape, np.dtype(dtype), 3, None)
    built = small_networks.build(Network(**(BASE | options)), spec, value=value)
    rng = np.random.default_rng(4)
    seen = {
        "uint8": lambda: rng.integers(0, 256, (6, *shape), np.uint8),
        "bool": lambda: rng.random((6, *shape)) < 0.3,
        "float32": lambda: rng.normal(size=(6, *shape)).astype(np.float32),
    }[dtype]()
    noise = rng.normal(0, 0.1, built.num_parameters)
    vector = (built.initial + noise).astype(np.float32)
    parameters = tf.constant(vector)
    outputs = built.outputs(parameters, built.features(parameters, tf.constant(seen)))
    expected = built.q_values(outputs).numpy()
    built.assign(vector)

    made = plain(built.as_keras())
    assert numpy_steps.unknown(made, built.inner_models) == []
    first, steps, arrays = numpy_steps.of(made, built.inner_models)
    found = numpy_network.computed(steps, numpy_network.by_layer(arrays), first, seen)

    assert found.dtype == np.float32
    assert np.ptp(expected, axis=0).min() > 1e-3  # observations make a difference
    largest = max(np.abs(expected).max(), 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * largest)
    np.testing.assert_allclose(built.as_keras()(seen), found, rtol=0, atol=1e-4 * largest)


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_windows_are_where_keras_has_them(padding: str) -> None:
    rng, sizes = np.random.default_rng(5), [(1, 1), (2, 3), (3, 2), (4, 4)]
    for size, strides, height in itertools.product(sizes, [(1, 1), (2, 1), (3, 2), (4, 3)], (5, 8)):
        images = rng.normal(-5, 1, (2, height, 7, 3)).astype(np.float32)
        kernel = rng.normal(size=(*size, 3, 4)).astype(np.float32)
        bias = rng.normal(size=4).astype(np.float32)
        wanted = keras.ops.conv(images, kernel, strides, padding) + bias
        found = numpy_network.LAYERS["Conv2D"](
            {"kernel": kernel, "bias": bias}, images, strides=strides, padding=padding
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
        # All are below 0, which no edge may outdo.
        wanted = keras.ops.max_pool(images, size, strides, padding)
        found = numpy_network.LAYERS["MaxPooling2D"](
            {}, images, pool_size=size, strides=strides, padding=padding
        )
        np.testing.assert_array_equal(found, wanted)
