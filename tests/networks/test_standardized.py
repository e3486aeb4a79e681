"""Means and scales at the head of the parameters: what a network makes of them."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from support import small_networks
from support.small_networks import NUMBER, VECTOR, observations

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec, parts
from ps_dqn.networks.layers import Standardize
from ps_dqn.networks.network import QNetwork

MEAN, SCALE = np.array([1.0, -2.0, 0.0, 30.0]), np.array([2.0, 0.5, 1.0, 0.1])
PARTS = spaces.Dict(
    {
        "cell": spaces.Discrete(3),
        "far": spaces.Box(-9, 9, (2,), np.float32),
        "near": spaces.Box(-9, 9, (), np.float32),
    }
)


def build(
    spec: EnvironmentSpec = VECTOR, returns: bool = False, seed: int = 1, **values: object
) -> QNetwork:
    config = Network(
        **{"hidden_sizes": (8,), "layer_norm": False, "normalize_observations": "on"} | values
    )
    value = Value(value_distribution="none", normalize_returns="on" if returns else "off")
    return networks.build(config, value, spec, seed)


def values_of(network: QNetwork, vector: np.ndarray, seen: np.ndarray) -> np.ndarray:
    parameters = tf.constant(vector.astype(np.float32))
    return network.outputs(parameters, network.features(parameters, tf.constant(seen))).numpy()


def standardized(seen: np.ndarray) -> np.ndarray:
    return np.clip((seen - MEAN) * SCALE, -Standardize.LIMIT, Standardize.LIMIT).astype(np.float32)


def test_the_network_sees_standardized_numbers() -> None:
    network, plain = build(), build(normalize_observations="off")
    assert (network.num_moments, plain.num_moments) == (4, 0)
    assert network.num_parameters == plain.num_parameters + 8
    assert network.initial.tolist() == [*[0] * 4, *[1] * 4, *plain.initial]
    seen = 20 * observations(VECTOR, 6)
    vector = np.concatenate([MEAN, SCALE, plain.initial])
    expected = values_of(plain, plain.initial, standardized(seen))
    np.testing.assert_allclose(values_of(network, vector, seen), expected, rtol=1e-5, atol=1e-6)
    # As it is at first, nothing but what is far away changes.
    near = seen / 100
    expected = values_of(plain, plain.initial, near)
    np.testing.assert_allclose(values_of(network, network.initial, near), expected, atol=1e-6)


def test_no_gradient_moves_them() -> None:
    network = build(returns=True)
    head = 9
    parameters = tf.constant(network.initial + 0.1)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        cut = network.cut(parameters)
        features = network.features(cut, tf.constant(observations(VECTOR, 6)))
        loss = tf.reduce_sum(network.outputs(cut, features) ** 2)
    gradient = tape.gradient(loss, parameters).numpy()
    assert not gradient[:head].any()
    assert np.count_nonzero(gradient[head:]) > 10


def test_rewards_have_a_scale_of_their_own() -> None:
    network = build(normalize_observations="off", returns=True)
    assert network.num_moments == 1
    rewards = tf.constant([[1.0, -2.0]])
    assert network.rewards(network.initial, rewards).numpy().tolist() == [[1.0, -2.0]]
    vector = network.initial.copy()
    vector[0] = 0.25
    assert network.rewards(tf.constant(vector), rewards).numpy().tolist() == [[0.25, -0.5]]
    plain = build(normalize_observations="off")
    assert plain.rewards(plain.initial, rewards) is rewards


def test_of_parts_quantities_are_standardized_and_things_are_not() -> None:
    made = parts.parts_of(PARTS)
    spec = EnvironmentSpec((16,), np.dtype(np.uint8), 3, None, parts=made)
    network = build(spec, hidden_sizes=())
    assert network.num_moments == 3
    plain = build(spec, hidden_sizes=(), normalize_observations="off")
    row = np.concatenate(
        [
            np.array([2], np.int32).view(np.uint8),
            np.array([5.0, 7.0, -3.0], np.float32).view(np.uint8),
        ]
    )[None]
    changed = row.copy()
    changed[0, 4:] = np.array([2.0, 0.3, 8.0], np.float32).view(np.uint8)
    head = [4.0, 4.0, -7.0, 2.0, 0.1, 2.0]  # means, then scales
    vector = np.concatenate([head, plain.initial])
    expected = values_of(plain, plain.initial, changed)
    np.testing.assert_allclose(values_of(network, vector, row), expected, rtol=1e-5, atol=1e-6)


def test_along_sequences_too() -> None:
    network = build(recurrent_size=4)
    plain = build(recurrent_size=4, normalize_observations="off")
    seen = observations(VECTOR, 2, 3)
    vector = np.concatenate([MEAN, SCALE, plain.initial]).astype(np.float32)
    along = tf.zeros([2, 3], tf.bool), tf.zeros([2, 3], tf.int32), tf.zeros([2, 3])
    state = tf.zeros([2, network.state_size])
    found, _ = network.unroll(tf.constant(vector), tf.constant(seen), *along, state)
    shown = tf.constant(standardized(seen))
    expected, _ = plain.unroll(tf.constant(plain.initial), shown, *along, state)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_lstm_reads_rewards_by_their_scale() -> None:
    scaled = build(normalize_observations="off", returns=True, recurrent_size=4)
    plain = build(normalize_observations="off", recurrent_size=4)
    assert scaled.initial.tolist() == [1, *plain.initial]
    seen, starts = tf.constant(observations(VECTOR, 2, 3)), tf.zeros([2, 3], tf.bool)
    actions = tf.zeros([2, 3], tf.int32)
    rewards = np.array([[400, -900, 200], [0, 100, 700]], np.float32)
    state = np.zeros((2, plain.state_size), np.float32)
    state[:, -2:] = [[1, 300], [2, -800]]
    found, last = scaled.unroll(
        tf.constant([0.01, *plain.initial]), seen, starts, actions, rewards, state
    )
    scale = np.float32(0.01)
    given = state * np.where(np.arange(plain.state_size) == plain.state_size - 1, scale, 1)
    expected, _ = plain.unroll(
        tf.constant(plain.initial), seen, starts, actions, scale * rewards, given
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert last.numpy()[:, -1].tolist() == rewards[:, -1].tolist()  # as it was paid


@pytest.mark.parametrize("name", ["mlp", "support.user_networks:mlp"])
@pytest.mark.parametrize("spec", [VECTOR, NUMBER], ids=["vector", "number"])
def test_the_exported_model_does_it_too(
    name: str, spec: EnvironmentSpec, tmp_path: pathlib.Path
) -> None:
    own = {"network": name} if ":" in name else {"network": name, "hidden_sizes": (8,)}
    config = Network(**own, normalize_observations="on")
    network = networks.build(config, small_networks.NONE, spec, seed=1)
    size = network.num_moments
    vector = network.initial.copy()
    vector[: 2 * size] = np.concatenate([MEAN[:size], SCALE[:size]])
    network.assign(vector)
    network.as_keras().save(tmp_path / "model.keras")
    model = keras.models.load_model(tmp_path / "model.keras")
    seen = 20 * observations(spec, 5)
    expected = values_of(network, vector, seen)
    np.testing.assert_allclose(model(seen), expected, rtol=1e-5, atol=1e-6)
