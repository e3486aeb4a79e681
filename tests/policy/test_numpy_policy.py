"""Actions that NumPy computes of a flat vector, against the network's own."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support import small_networks

from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.policy import numpy_policy, numpy_steps
from ps_dqn.policy.numpy_policy import NumPyPolicy

C51 = Value(value_distribution="c51", num_atoms=5, v_min=-2.0, v_max=2.0)
QR = Value(value_distribution="qr_dqn", num_quantiles=5)
IQN = Value(value_distribution="iqn", num_policy_quantiles=5, num_cosines=4)
POLICY = Value(algorithm="a3c", double_dqn=False)
KINDS = {"values": small_networks.NONE, "c51": C51, "qr_dqn": QR, "a policy": POLICY}
DENSE: dict[str, Any] = {"network": "mlp", "hidden_sizes": (16, 8), "layer_norm": True}
NOBODY = np.zeros((40, 0), np.bool_)


def greedy(policy: NumPyPolicy, vector: np.ndarray, shown: np.ndarray, masks=NOBODY) -> np.ndarray:
    return numpy_policy.best(policy.values(policy.weights(vector), shown), masks)


def network(value: Value = small_networks.NONE, spec=small_networks.VECTOR, **options: Any):
    return small_networks.build(Network(**(DENSE | options)), spec, value=value)


@pytest.mark.parametrize("activation", ["relu", "tanh", "silu", "elu"])
@pytest.mark.parametrize(
    ("value", "more"),
    [
        pytest.param(value, more, id=f"{name} {more}")
        for name, value in KINDS.items()
        for more in ({}, {"dueling": True}, {"noisy": True})
        if not (value is POLICY and "dueling" in more)
    ],
)
def test_it_acts_as_the_network_does_without_noise(activation: str, value: Value, more) -> None:
    built = network(value, activation=activation, **more)
    policy, chosen = NumPyPolicy(numpy_steps.program(built)), set()
    shown = small_networks.observations(small_networks.VECTOR, 40)
    for seed in range(5):
        vector = np.random.default_rng(seed).normal(size=built.num_parameters).astype(np.float32)
        inputs = tf.constant(vector), tf.constant(shown), tf.zeros((40, 0))
        expected = built.act(*inputs)[0].numpy()

        found = greedy(policy, vector, shown)

        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)
        chosen |= set(expected.tolist())
    assert len(chosen) > 1


def test_the_network_keeps_its_weights() -> None:
    built = network()
    before = [np.array(each) for each in built.as_keras().get_weights()]
    assert numpy_steps.program(built)
    for one, other in zip(before, built.as_keras().get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("value", [small_networks.NONE, POLICY], ids=["values", "a policy"])
def test_what_is_not_allowed_is_not_done(value: Value) -> None:
    built = network(value)
    policy, vector = NumPyPolicy(numpy_steps.program(built)), small_networks.random_vector(built)
    shown = small_networks.observations(small_networks.VECTOR, 40)
    masks = np.random.default_rng(3).random((40, built.num_actions)) < 0.5
    masks[~masks.any(axis=1)] = True
    inputs = tf.constant(vector), tf.constant(shown), tf.zeros((40, 0))
    expected = built.act(*inputs, masks=tf.constant(masks))[0].numpy()

    found = greedy(policy, vector, shown, masks)

    np.testing.assert_array_equal(found, expected)
    assert masks[np.arange(40), found].all()


def test_parameters_out_of_bounds_raise_nothing() -> None:
    built = network()
    policy = NumPyPolicy(numpy_steps.program(built))
    for number in (np.inf, np.nan, 1e38):
        vector = np.full(built.num_parameters, number, np.float32)
        shown = small_networks.observations(small_networks.VECTOR, 40)
        assert greedy(policy, vector, shown).shape == (40,)


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"recurrent_size": 4}, small_networks.NONE),
        ({}, IQN),
        ({"normalize_observations": "on"}, small_networks.NONE),
        ({"recurrent_size": 4}, POLICY),
    ],
    ids=["recurrent", "iqn", "normalized", "a recurrent policy"],
)
def test_networks_of_another_kind_have_no_program(options: dict[str, Any], value: Value) -> None:
    assert not numpy_steps.program(network(value, **options))


@pytest.mark.parametrize("name", ["minatar", "nature", "impala"])
def test_images_have_no_program(name: str) -> None:
    spec = EnvironmentSpec((36, 36, 4), np.dtype(np.uint8), 3, None)
    assert not numpy_steps.program(network(spec=spec, network=name))


def test_a_program_is_read_once() -> None:
    text = numpy_steps.program(network()).encode()
    assert numpy_policy.of(text) is numpy_policy.of(bytes(text))
