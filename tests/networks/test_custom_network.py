"""A user's own Keras model as the Q-network, and what is said of one that cannot be used."""

import pathlib
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError

VECTOR = EnvironmentSpec((4,), np.dtype(np.float32), 3, None)
IMAGE = EnvironmentSpec((6, 5, 2), np.dtype(np.uint8), 3, None)
MODULE = "support.user_networks"
NONE = Value(value_distribution="none")
C51 = Value(value_distribution="c51", num_atoms=5, v_min=-2, v_max=2)
QR_DQN = Value(value_distribution="qr_dqn", num_quantiles=4)


def build(
    name: str, value: Value = NONE, spec: EnvironmentSpec = VECTOR, seed: int = 0, **flags: object
) -> networks.QNetwork:
    return networks.build(Network(network=f"{MODULE}:{name}", **flags), value, spec, seed)


def observations(spec: EnvironmentSpec, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    if spec.observation_dtype == np.uint8:
        return rng.integers(0, 256, (*shape, *spec.observation_shape), np.uint8)
    return rng.normal(size=(*shape, *spec.observation_shape)).astype(np.float32)


def outputs(network: networks.QNetwork, vector: np.ndarray, seen: np.ndarray) -> np.ndarray:
    parameters = tf.constant(vector)
    return network.outputs(parameters, network.features(parameters, seen)).numpy()


def test_values_are_the_users_model_at_these_parameters() -> None:
    network = build("mlp")
    vector = np.random.default_rng(2).normal(size=network.num_parameters).astype(np.float32)
    assert vector.size == (4 * 8 + 8) + (8 * 3 + 3)
    first, second = np.split(vector, [4 * 8 + 8])
    seen = observations(VECTOR, 6)
    hidden = np.tanh(seen @ first[:32].reshape(4, 8) + first[32:])
    expected = hidden @ second[:24].reshape(8, 3) + second[24:]
    np.testing.assert_allclose(outputs(network, vector, seen), expected, rtol=1e-5, atol=1e-5)
    actions, _, _ = network.act(tf.constant(vector), seen, tf.zeros([6, 0]))
    assert actions.numpy().tolist() == expected.argmax(axis=1).tolist()


@pytest.mark.parametrize("name", ["mlp", "mlp_of_bytes", "any_image", "without_an_input"])
def test_images_reach_it_as_the_environment_gives_them(name: str) -> None:
    network = build(name, spec=IMAGE)
    seen = observations(IMAGE, 2, 3)
    parameters = tf.constant(network.initial)
    along = seen, tf.zeros([2, 3], tf.bool), tf.zeros([2, 3], tf.int32), tf.zeros([2, 3])
    features, state = network.unroll(parameters, *along, tf.zeros([2, 0]))
    assert features.shape == (2, 3, 60)
    assert features.dtype == tf.uint8
    assert state.shape == (2, 0)
    values = network.outputs(parameters, tf.reshape(features, [6, 60]))
    flat = seen.reshape(6, *IMAGE.observation_shape)
    np.testing.assert_allclose(values, network.as_keras()(flat), rtol=1e-5, atol=1e-5)


def test_bytes_are_not_scaled_for_it() -> None:
    network = build("mlp_of_bytes", spec=IMAGE)
    vector = np.zeros_like(network.initial)
    vector[: 60 * 3 : 3] = 1  # action 0's value is the sum of all inputs
    seen = observations(IMAGE, 4)
    expected = seen.reshape(4, -1).sum(axis=1) / 51  # by its own Rescaling alone
    np.testing.assert_allclose(outputs(network, vector, seen)[:, 0], expected, rtol=1e-5)


def test_a_subclass_that_is_not_built_yet() -> None:
    network = build("subclass")
    vector = np.arange(15, dtype=np.float32)
    seen = observations(VECTOR, 6)
    expected = 2 * (seen @ vector[:12].reshape(4, 3) + vector[12:])
    np.testing.assert_allclose(outputs(network, vector, seen), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("value", "number"), [(C51, 5), (QR_DQN, 4)], ids=["c51", "qr_dqn"])
def test_outputs_of_distributions_are_its_units_by_action_and_atom(
    value: Value, number: int
) -> None:
    network = build("mlp", value)
    vector = np.zeros_like(network.initial)
    vector[-3 * number :] = np.arange(3 * number)  # the last biases
    seen = observations(VECTOR, 1)
    expected = np.arange(3.0 * number).reshape(1, 3, number)
    found = outputs(network, vector, seen)
    assert found.tolist() == expected.tolist()
    if value is C51:
        share = np.exp(expected - expected.max(-1, keepdims=True))
        mean = (share / share.sum(-1, keepdims=True)) @ [-2, -1, 0, 1, 2]
    else:
        mean = expected.mean(-1)
    np.testing.assert_allclose(network.q_values(found), mean, rtol=1e-5)
    network.assign(vector)
    np.testing.assert_allclose(network.as_keras()(seen), mean, rtol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "subclass"])
def test_saved_model_gives_the_same_values(name: str, tmp_path: pathlib.Path) -> None:
    network = build(name, C51)
    network.assign(np.linspace(-1, 1, network.num_parameters, dtype=np.float32))
    network.as_keras().save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    seen = observations(VECTOR, 6)
    np.testing.assert_array_equal(loaded(seen), network.as_keras()(seen))
    assert loaded(seen).shape == (6, 3)


@pytest.mark.parametrize("name", ["mlp", "without_an_input"])
def test_seed_decides_its_weights_and_nothing_else(name: str) -> None:
    # Weights are made when the function builds them or when the model is first called.
    random.seed(5)
    np.random.seed(5)
    expected = random.random(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    first = build(name, seed=1).initial
    assert (random.random(), np.random.random()) == expected
    assert (build(name, seed=1).initial == first).all()
    assert not np.allclose(build(name, seed=2).initial, first)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "no_such_module:build",
            r"cannot be imported \(ModuleNotFoundError: .*PYTHONPATH",
        ),
        (f"{MODULE}:", f"{MODULE} has no ''"),
        (f"{MODULE}:absent", f"{MODULE} has no 'absent': name a function"),
        (f"{MODULE}:NUMBER", "is not a function but int"),
        (
            f"{MODULE}:raises",
            r"\(4,\), num_outputs=3 \(KeyError: 'nowhere.*found', at \S+\.py:\d+ in raises\)",
        ),
        (
            f"{MODULE}:no_arguments",
            r"failed with .*TypeError: no_arguments\(\) takes 0",
        ),
        (
            f"{MODULE}:raises_when_called",
            r"failed with observations of the shape \(4,\)",
        ),
        (f"{MODULE}:a_layer", "returned Dense: let it return a keras.Model"),
        (f"{MODULE}:wrong_input", r"input has the shape \(7,\), and .* have \(4,\)"),
        (f"{MODULE}:wrong_rank", r"input has the shape \(4, 1\), and .* have \(4,\)"),
        (
            f"{MODULE}:two_inputs",
            r"input has the shape \[\(4,\), \(1,\)\], and .* \(4,\)",
        ),
        (
            f"{MODULE}:wrong_output",
            r"outputs have the shape \(4,\).*num_outputs=3.*\(3,\)",
        ),
        (f"{MODULE}:two_outputs", r"outputs have the shape \[\(3,\), \(1,\)\]"),
        (
            f"{MODULE}:batch_norm",
            "state beside its trainable weights.*averages/moving_mean",
        ),
        (f"{MODULE}:no_weights", "has no weights to learn"),
        ("resnet", "unknown: use mlp, nature, minatar, impala, or your own"),
    ],
)
def test_errors_are_one_line_that_says_what_to_do(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        networks.build(Network(network=name), NONE, VECTOR, 0)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"--network={name}: ")


@pytest.mark.parametrize(
    ("flags", "value", "said"),
    [
        ({"dueling": True}, NONE, "with --dueling, which"),
        ({"noisy": True}, NONE, "with --noisy, which"),
        ({"recurrent_size": 8}, NONE, "with --recurrent_size, which"),
        ({}, Value(value_distribution="iqn"), "with --value_distribution=iqn, which"),
        ({"dueling": True, "noisy": True}, C51, "with --dueling, --noisy, which"),
    ],
)
def test_what_is_built_into_the_other_networks_is_refused(
    flags: dict[str, object], value: Value, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        build("mlp", value, **flags)
