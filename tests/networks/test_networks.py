"""Q-networks as pure functions of a flat vector: against NumPy, the Keras model, and XLA."""

import dataclasses
import itertools
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.small_networks import (
    IMAGE,
    NUMBER,
    VALUES,
    VECTOR,
    build,
    network,
    observations,
    random_vector,
)

from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks.network import QNetwork

CONFIGS = [
    network((8, 6)),
    network((8,), layer_norm=True, activation="tanh"),
    network(()),
]


def values(built: QNetwork, vector: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Q-values of a network that is not recurrent."""
    parameters = tf.constant(vector)
    outputs = built.outputs(parameters, built.features(parameters, seen))
    return built.q_values(outputs).numpy()


def weights(model: keras.Model) -> np.ndarray:
    return np.concatenate([np.ravel(each.numpy()) for each in model.trainable_variables])


def layers(built: QNetwork) -> list[str]:
    return [type(layer).__name__ for layer in built.as_keras().layers]


def widths(built: QNetwork) -> list[int]:
    layers = built.as_keras().layers
    return [layer.units for layer in layers if isinstance(layer, keras.layers.Dense)]


@pytest.mark.parametrize("spec", [VECTOR, IMAGE, NUMBER], ids=["vector", "image", "number"])
@pytest.mark.parametrize("config", CONFIGS, ids=["plain", "layer_norm", "linear"])
def test_functions_are_the_keras_model(config: Network, spec: EnvironmentSpec) -> None:
    built = build(config, spec)
    seen = observations(spec, 6)
    found = values(built, built.initial, seen)
    assert found.shape == (6, 3)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, built.as_keras()(seen), rtol=1e-6, atol=1e-6)
    assert np.ptp(found, axis=0).min() > 0, "the observation matters"


@pytest.mark.parametrize("config", CONFIGS, ids=["plain", "layer_norm", "linear"])
def test_any_vector_fits_and_does_not_touch_the_model(config: Network) -> None:
    built = build(config)
    model, vector, seen = built.as_keras(), random_vector(built), observations(VECTOR, 6)
    found = values(built, vector, seen)
    assert (weights(model) == built.initial).all()
    assert not np.allclose(found, model(seen))
    built.assign(vector)
    assert (weights(model) == vector).all()
    np.testing.assert_allclose(found, model(seen), rtol=1e-5, atol=1e-5)


def test_flat_vector_has_every_weight_in_order() -> None:
    built = build(network((5, 2)))
    assert built.initial.dtype == np.float32
    assert built.initial.shape == (built.num_parameters,)
    assert built.num_parameters == (4 * 5 + 5) + (5 * 2 + 2) + (2 * 3 + 3)
    vector = np.arange(built.num_parameters, dtype=np.float32)
    built.assign(vector)
    kernel, bias = built.as_keras().trainable_variables[:2]
    assert kernel.numpy().tolist() == np.arange(20).reshape(4, 5).tolist()
    assert bias.numpy().tolist() == [20, 21, 22, 23, 24]
    cut = built.cut(tf.constant(vector))
    assert [tuple(each.shape) for each in cut] == [(4, 5), (5,), (5, 2), (2,), (2, 3), (3,)]
    assert np.concatenate([np.ravel(each) for each in cut]).tolist() == vector.tolist()


@pytest.mark.parametrize("is_cut", [False, True], ids=["vector", "cut"])
def test_gradient_by_the_vector_is_the_models(is_cut: bool) -> None:
    built, seen = build(CONFIGS[1]), observations(VECTOR, 6)
    vector = tf.constant(built.initial)
    with tf.GradientTape() as tape:
        tape.watch(vector)
        parameters = built.cut(vector) if is_cut else vector
        loss = tf.reduce_sum(built.outputs(parameters, built.features(parameters, seen)) ** 2)
    flat = tape.gradient(loss, vector).numpy()
    model = built.as_keras()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(seen) ** 2)
    expected = tape.gradient(loss, [each.value for each in model.trainable_variables])
    expected = np.concatenate([np.ravel(each) for each in expected])
    np.testing.assert_allclose(flat, expected, rtol=1e-4, atol=1e-5)
    assert np.count_nonzero(flat) > len(flat) // 2


def test_hidden_sizes_take_effect() -> None:
    assert widths(build(network((7, 5)))) == [7, 5, 3]
    assert widths(build(network((9,)))) == [9, 3]
    assert widths(build(network(()))) == [3]


def test_layer_norm_takes_effect() -> None:
    plain, normal = build(network((8, 8))), build(network((8, 8), layer_norm=True))
    assert "LayerNormalization" not in layers(plain)
    # Between each hidden layer and its activation.
    hidden = ["Dense", "LayerNormalization", "Activation"]
    assert layers(normal) == ["InputLayer", *hidden, *hidden, "Dense"]
    assert normal.num_parameters == plain.num_parameters + 4 * 8
    # The first hidden layer has no bias yet, so its normalised values, and all after them, are
    # the same for an observation ten times as large.
    small = observations(VECTOR, 6)

    def same(built: QNetwork) -> bool:
        before, after = (
            values(built, built.initial, small),
            values(built, built.initial, 10 * small),
        )
        return np.allclose(before, after, rtol=0.02, atol=0.02)

    assert same(normal)
    assert not same(plain)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("relu", [0.0, 0.5]),
        ("tanh", [np.tanh(-2.0), np.tanh(0.5)]),
        ("elu", [np.exp(-2.0) - 1, 0.5]),
        ("silu", [-2 / (1 + np.exp(2.0)), 0.5 / (1 + np.exp(-0.5))]),
        ("gelu", [-2 * 0.02275013, 0.5 * 0.69146246]),  # times the normal distribution's CDF
    ],
)
def test_activation_takes_effect(activation: str, expected: list[float]) -> None:
    spec = EnvironmentSpec((2,), np.dtype(np.float32), 2, None)
    built = build(network((2,), activation=activation), spec)
    # Identity kernels and no biases: what comes out is the activation of what goes in.
    vector = np.array([1, 0, 0, 1, 0, 0] * 2, np.float32)
    found = values(built, vector, np.float32([[-2.0, 0.5]]))
    assert found[0].tolist() == pytest.approx(expected, abs=1e-3)


def test_last_layer_is_linear() -> None:
    built = build(network((16,)), seed=3)
    found = values(built, built.initial, 100 * observations(VECTOR, 50))
    assert found.min() < -1
    assert found.max() > 1


def test_seed_decides_the_weights() -> None:
    def initial(seed: int) -> np.ndarray:
        return build(network((8, 8), recurrent=4), seed=seed).initial

    assert (initial(1) == initial(1)).all()
    assert not np.allclose(initial(1), initial(2))


def test_first_weights_are_those_of_the_layers_own_seeds() -> None:
    # The same seed must go on giving the same network, or results could not be compared.
    seeds = np.random.SeedSequence(7).generate_state(3)
    expected = []
    for shape, scale, seed in zip([(4, 8), (8, 6), (6, 3)], [2.0, 2.0, 1.0], seeds, strict=True):
        draw = keras.initializers.VarianceScaling(scale, "fan_in", "truncated_normal", int(seed))
        expected += [np.ravel(draw(shape)), np.zeros(shape[1])]
    assert build(network((8, 6)), seed=7).initial.tolist() == np.concatenate(expected).tolist()


def test_largest_seed_is_accepted() -> None:
    build(network((4,), recurrent=2), seed=2**31 - 1)


def test_floats_are_not_scaled() -> None:
    built = build(network(()))
    vector = np.zeros_like(built.initial)
    vector[: 4 * 3 : 3] = 1
    seen = 1000 * observations(VECTOR, 6)
    found = values(built, vector, seen)
    np.testing.assert_allclose(found[:, 0], seen.sum(axis=1), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.value_distribution)
@pytest.mark.parametrize("name", ["mlp", "minatar"])
@pytest.mark.parametrize("recurrent", [0, 4])
def test_every_combination_learns_and_acts(name: str, value: Value, recurrent: int) -> None:
    image = EnvironmentSpec((3, 4, 2), np.dtype(np.uint8), 3, None)
    seen = observations(image, 2, 3)
    starts, noise = tf.constant([[True, False, False]] * 2), tf.constant([1, 2])
    done = tf.constant([[0, 1, 2]] * 2), tf.constant([[0.5, -2.0, 1.0]] * 2)
    state_size = 2 * recurrent + 2 if recurrent else 0
    # What comes behind the layers for images is the same as without them.
    either = [False, True] if name == "mlp" else [True]
    for dueling, noisy in itertools.product(either, either):
        config = dataclasses.replace(network((6, 5), recurrent=recurrent), network=name)
        built = build(dataclasses.replace(config, dueling=dueling, noisy=noisy), image, 0, value)
        assert (built.num_actions, built.state_size) == (3, state_size)
        assert built.as_keras().non_trainable_variables == []
        parameters, state = tf.constant(built.initial), tf.zeros([2, state_size])
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            features, _ = built.unroll(parameters, seen, starts, *done, state, noise)
            flat = tf.reshape(features, [6, features.shape[-1]])
            loss = tf.reduce_sum(built.outputs(parameters, flat, noise) ** 2)
        gradient = tape.gradient(loss, parameters).numpy()
        assert np.isfinite(gradient).all()
        assert np.count_nonzero(gradient) > gradient.size // 4
        actions, _, _ = built.act(parameters, seen[:, 0], state, noise)
        assert actions.dtype == tf.int32
        assert set(actions.numpy().tolist()) <= {0, 1, 2}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.value_distribution)
@pytest.mark.parametrize("recurrent", [0, 4])
def test_saved_model_gives_the_same_values(
    value: Value, recurrent: int, tmp_path: pathlib.Path
) -> None:
    image = EnvironmentSpec((3, 4, 2), np.dtype(np.uint8), 3, None)
    config = dataclasses.replace(network((6, 5), recurrent=recurrent), network="minatar")
    built = build(dataclasses.replace(config, dueling=True, noisy=True), image, 0, value)
    vector, seen = random_vector(built), tf.constant(observations(image, 5))
    built.assign(vector)
    built.as_keras().save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    numbers = np.random.default_rng(3).normal(size=(5, built.state_size))
    state = tf.constant(numbers, tf.float32)
    inputs = [seen, state] if recurrent else seen
    results = [keras.tree.flatten(model(inputs)) for model in (loaded, built.as_keras())]
    for found, other in zip(*results, strict=True):
        np.testing.assert_array_equal(found, other)
    actions, next_state, _ = built.act(tf.constant(vector), seen, state)
    q_values, *states = results[0]
    assert q_values.shape == (5, 3)
    assert actions.numpy().tolist() == q_values.numpy().argmax(axis=1).tolist()
    for found in states:
        np.testing.assert_allclose(found, next_state, rtol=1e-5, atol=1e-6)
    assert len(states) == (recurrent > 0)
