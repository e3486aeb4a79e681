"""Q-networks: the pure function of a flat vector against the Keras model itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Network
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError

VECTOR = EnvironmentSpec((4,), np.dtype(np.float32), 3, None)
IMAGE = EnvironmentSpec((5, 4, 2), np.dtype(np.uint8), 3, None)
NUMBER = EnvironmentSpec((), np.dtype(np.float32), 3, None)


def network(sizes: tuple[int, ...], activation: str = "relu", layer_norm: bool = False) -> Network:
    """Everything said, so that no test depends on the defaults."""
    return Network(hidden_sizes=sizes, activation=activation, layer_norm=layer_norm)


CONFIGS = [
    network((8, 6)),
    network((8,), layer_norm=True, activation="tanh"),
    network(()),
]


def observations(spec: EnvironmentSpec, count: int = 6) -> np.ndarray:
    rng = np.random.default_rng(1)
    if spec.observation_dtype == np.uint8:
        return rng.integers(0, 256, (count, *spec.observation_shape), np.uint8)
    return rng.normal(size=(count, *spec.observation_shape)).astype(np.float32)


def layers(model: keras.Model) -> list[str]:
    return [type(layer).__name__ for layer in model.layers]


def widths(model: keras.Model) -> list[int]:
    return [layer.units for layer in model.layers if isinstance(layer, keras.layers.Dense)]


@pytest.mark.parametrize("spec", [VECTOR, IMAGE, NUMBER], ids=["vector", "image", "number"])
@pytest.mark.parametrize("config", CONFIGS, ids=["plain", "layer_norm", "linear"])
def test_pure_function_is_the_model(config: Network, spec: EnvironmentSpec) -> None:
    model = networks.build(config, spec, seed=0)
    seen = observations(spec)
    q_values = networks.pure_function(model)(tf.constant(networks.flatten(model)), seen)
    assert q_values.shape == (6, 3)
    assert q_values.dtype == tf.float32
    np.testing.assert_allclose(q_values, model(seen), rtol=1e-6, atol=1e-6)
    assert np.ptp(q_values.numpy(), axis=0).min() > 0, "the observation matters"


@pytest.mark.parametrize("config", CONFIGS, ids=["plain", "layer_norm", "linear"])
def test_any_vector_fits_and_does_not_touch_the_model(config: Network) -> None:
    model = networks.build(config, VECTOR, seed=0)
    before = networks.flatten(model)
    vector = np.random.default_rng(2).normal(size=before.shape).astype(np.float32)
    seen = observations(VECTOR)
    q_values = networks.pure_function(model)(tf.constant(vector), seen)
    assert (networks.flatten(model) == before).all()
    assert not np.allclose(q_values, model(seen))
    networks.assign(model, vector)
    assert (networks.flatten(model) == vector).all()
    np.testing.assert_allclose(q_values, model(seen), rtol=1e-5, atol=1e-5)


def test_flat_vector_has_every_weight_in_order() -> None:
    model = networks.build(network((5, 2)), VECTOR, seed=0)
    vector = networks.flatten(model)
    assert vector.dtype == np.float32
    assert vector.shape == ((4 * 5 + 5) + (5 * 2 + 2) + (2 * 3 + 3),)
    networks.assign(model, np.arange(len(vector), dtype=np.float32))
    kernel, bias = model.trainable_variables[:2]
    assert kernel.numpy().tolist() == np.arange(20).reshape(4, 5).tolist()
    assert bias.numpy().tolist() == [20, 21, 22, 23, 24]


def test_gradient_by_the_vector_is_the_models() -> None:
    model = networks.build(CONFIGS[1], VECTOR, seed=0)
    function, seen = networks.pure_function(model), observations(VECTOR)
    vector = tf.constant(networks.flatten(model))
    with tf.GradientTape() as tape:
        tape.watch(vector)
        loss = tf.reduce_sum(function(vector, seen) ** 2)
    flat = tape.gradient(loss, vector).numpy()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(seen) ** 2)
    expected = tape.gradient(loss, [each.value for each in model.trainable_variables])
    expected = np.concatenate([np.ravel(each) for each in expected])
    np.testing.assert_allclose(flat, expected, rtol=1e-4, atol=1e-5)
    assert np.count_nonzero(flat) > len(flat) // 2


def test_hidden_sizes_take_effect() -> None:
    assert widths(networks.build(network((7, 5)), VECTOR, 0)) == [7, 5, 3]
    assert widths(networks.build(network((9,)), VECTOR, 0)) == [9, 3]
    assert widths(networks.build(network(()), VECTOR, 0)) == [3]


def test_layer_norm_takes_effect() -> None:
    plain = networks.build(network((8, 8)), VECTOR, 0)
    normal = networks.build(network((8, 8), layer_norm=True), VECTOR, 0)
    assert "LayerNormalization" not in layers(plain)
    # Between each hidden layer and its activation.
    hidden = ["Dense", "LayerNormalization", "Activation"]
    assert layers(normal) == ["InputLayer", *hidden, *hidden, "Dense"]
    assert len(networks.flatten(normal)) == len(networks.flatten(plain)) + 4 * 8
    # The first hidden layer has no bias yet, so its normalised values, and all after them, are
    # the same for an observation ten times as large.
    seen = observations(VECTOR)
    np.testing.assert_allclose(normal(10 * seen), normal(seen), rtol=0.02, atol=0.02)
    assert not np.allclose(plain(10 * seen), plain(seen), rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("relu", [0.0, 0.5]),
        ("tanh", [np.tanh(-2.0), np.tanh(0.5)]),
        ("elu", [np.exp(-2.0) - 1, 0.5]),
        ("silu", [-2 / (1 + np.exp(2.0)), 0.5 / (1 + np.exp(-0.5))]),
    ],
)
def test_activation_takes_effect(activation: str, expected: list[float]) -> None:
    spec = EnvironmentSpec((2,), np.dtype(np.float32), 2, None)
    model = networks.build(network((2,), activation=activation), spec, 0)
    # Identity kernels and no biases: what comes out is the activation of what goes in.
    networks.assign(model, np.array([1, 0, 0, 1, 0, 0] * 2, np.float32))
    assert model(np.float32([[-2.0, 0.5]])).numpy()[0].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "tanh", "elu"])
def test_every_activation_offered_is_known_to_keras(activation: str) -> None:
    model = networks.build(network((4,), activation=activation), VECTOR, 0)
    assert np.isfinite(model(observations(VECTOR))).all()


def test_last_layer_is_linear() -> None:
    model = networks.build(network((16,)), VECTOR, seed=3)
    values = model(100 * observations(VECTOR, 50)).numpy()
    assert values.min() < -1
    assert values.max() > 1


def test_seed_decides_the_weights() -> None:
    def weights(seed: int) -> np.ndarray:
        return networks.flatten(networks.build(network((8, 8)), VECTOR, seed))

    assert (weights(1) == weights(1)).all()
    assert not np.allclose(weights(1), weights(2))


def test_layers_of_one_network_begin_differently() -> None:
    # Two layers of the same shape must not get the same numbers from one seed.
    spec = EnvironmentSpec((8,), np.dtype(np.float32), 8, None)
    model = networks.build(network((8, 8)), spec, 0)
    kernels = [each.numpy() for each in model.trainable_variables[::2]]
    assert not np.allclose(kernels[0], kernels[1])
    assert not np.allclose(kernels[0] / kernels[0].std(), kernels[2] / kernels[2].std())


def test_largest_seed_is_accepted() -> None:
    networks.build(network((4,)), VECTOR, 2**31 - 1)


def test_images_are_scaled_and_flattened() -> None:
    model = networks.build(network(()), IMAGE, seed=0)
    vector = np.zeros_like(networks.flatten(model))
    vector[: 40 * 3 : 3] = 1  # action 0's value is the sum of all inputs
    function = networks.pure_function(model)
    seen = observations(IMAGE)
    values = function(tf.constant(vector), tf.constant(seen)).numpy()
    expected = seen.reshape(6, -1).sum(axis=1) / 255
    np.testing.assert_allclose(values[:, 0], expected, rtol=1e-5)
    assert not values[:, 1:].any()
    white = np.full((1, 5, 4, 2), 255, np.uint8)
    assert function(tf.constant(vector), white).numpy()[0, 0] == pytest.approx(40, rel=1e-5)


def test_floats_are_not_scaled() -> None:
    model = networks.build(network(()), VECTOR, seed=0)
    vector = np.zeros_like(networks.flatten(model))
    vector[: 4 * 3 : 3] = 1
    seen = 1000 * observations(VECTOR)
    values = networks.pure_function(model)(tf.constant(vector), seen).numpy()
    np.testing.assert_allclose(values[:, 0], seen.sum(axis=1), rtol=1e-4, atol=1e-2)


def test_state_beside_the_weights_is_refused() -> None:
    inputs = keras.Input((4,))
    normal = keras.layers.BatchNormalization(name="averages")
    model = keras.Model(inputs, keras.layers.Dense(3)(normal(inputs)))
    with pytest.raises(UsageError, match="averages/moving_mean"):
        networks.pure_function(model)
