"""Networks that compute in fewer digits, against the same ones in float32 and against NumPy."""

from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from support import small_networks
from support.option_values import A3C

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.networks import precision
from ps_dqn.networks.layers import QuantileEmbedding
from ps_dqn.networks.lstm import LSTM
from ps_dqn.networks.network import QNetwork

SCREEN = EnvironmentSpec((36, 36, 2), np.dtype(np.uint8), 3, None)
# What rounding once makes of a number at most.
HALF_A_DIGIT = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
KINDS: dict[str, tuple[EnvironmentSpec, dict[str, Any]]] = {
    "mlp": (small_networks.VECTOR, {}),
    "dueling": (small_networks.VECTOR, {"dueling": True}),
    "noisy": (small_networks.VECTOR, {"noisy": True}),
    "normalized": (small_networks.VECTOR, {"normalize_observations": "on"}),
    "recurrent": (small_networks.VECTOR, {"recurrent_size": 8}),
    "c51": (small_networks.VECTOR, {"value_distribution": "c51"}),
    "hl_gauss": (small_networks.VECTOR, {"value_distribution": "hl_gauss"}),
    "qr_dqn": (small_networks.VECTOR, {"value_distribution": "qr_dqn"}),
    "iqn": (small_networks.VECTOR, {"value_distribution": "iqn"}),
    "a3c": (small_networks.VECTOR, A3C),
    "nature": (SCREEN, {"network": "nature"}),
    "minatar": (small_networks.IMAGE, {"network": "minatar"}),
    "impala": (SCREEN, {"network": "impala", "spectral_norm": True, "pooled_size": 2}),
}


def build(kind: str, numbers: str) -> QNetwork:
    spec, values = KINDS[kind]
    options = {"value_distribution": "none", "hidden_sizes": (32, 16), "layer_norm": True}
    config = Config.from_values(options | values)
    return networks.build(config.network, config.value, spec, 3, numbers)


def build_custom(name: str, numbers: str) -> QNetwork:
    values = {"network": f"support.user_networks:{name}", "value_distribution": "none"}
    config = Config.from_values(values)
    return networks.build(config.network, config.value, small_networks.VECTOR, 3, numbers)


def computed(network: QNetwork, parameters: tf.Tensor, spec: EnvironmentSpec) -> list[tf.Tensor]:
    """Features, outputs and recurrent state along four steps of three environments."""
    noise = tf.constant([5, 6])
    observations = tf.constant(small_networks.observations(spec, 3, 4))
    steps = tf.zeros([3, 4], tf.bool), tf.zeros([3, 4], tf.int32), tf.ones([3, 4])
    state = tf.zeros([3, network.state_size])
    features, state = network.unroll(parameters, observations, *steps, state, noise)
    flat = tf.reshape(features, [12, -1])
    return [flat, network.outputs(parameters, flat, noise), state]


@pytest.mark.parametrize("numbers", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_float32_but_for_rounding(kind: str, numbers: str) -> None:
    full, low = build(kind, "float32"), build(kind, numbers)
    np.testing.assert_array_equal(low.initial, full.initial)
    assert low.initial.dtype == np.float32
    vector = tf.constant(full.initial)
    features, outputs, state = computed(low, vector, KINDS[kind][0])
    *_, wanted, wanted_state = computed(full, vector, KINDS[kind][0])
    assert features.dtype == (tf.float32 if full.state_size else numbers)
    assert outputs.dtype == tf.float32 == state.dtype
    scale = float(tf.reduce_max(tf.abs(wanted)))
    error = float(tf.reduce_max(tf.abs(outputs - wanted))) / scale
    # A handful of layers, each of which rounds: some digits' halves, and not none.
    assert HALF_A_DIGIT[numbers] / 30 < error < 16 * HALF_A_DIGIT[numbers]
    np.testing.assert_allclose(state, wanted_state, atol=16 * HALF_A_DIGIT[numbers])


@pytest.mark.parametrize("kind", ["mlp", "noisy", "recurrent", "iqn", "nature", "impala"])
def test_gradients_are_float32_and_near_those_of_float32(kind: str) -> None:
    found = {}
    for numbers in ("float32", "bfloat16"):
        network = build(kind, numbers)
        vector = tf.constant(network.initial)
        with tf.GradientTape() as tape:
            tape.watch(vector)
            outputs = computed(network, network.cut(vector), KINDS[kind][0])[1]
            loss = tf.reduce_sum(outputs**2)
        gradient = tape.gradient(loss, vector)
        assert gradient.dtype == tf.float32
        found[numbers] = gradient.numpy()
    size = np.linalg.norm(found["float32"])
    error = np.linalg.norm(found["bfloat16"] - found["float32"]) / size
    assert 1e-4 < error < 0.1


@pytest.mark.parametrize("numbers", ["bfloat16", "float16"])
def test_a_hidden_layer_rounds_what_goes_into_its_product(numbers: str) -> None:
    config = Config.from_values(
        {"hidden_sizes": (16, 8), "layer_norm": False, "value_distribution": "none"}
    )
    spec = small_networks.VECTOR
    network = networks.build(config.network, config.value, spec, 3, numbers)
    x = small_networks.observations(spec, 50)
    kernel, bias = (each.numpy() for each in network.cut(tf.constant(network.initial))[:2])
    dtype = ml_dtypes.bfloat16 if numbers == "bfloat16" else np.float16
    rounded = x.astype(dtype).astype(np.float64) @ kernel.astype(dtype).astype(np.float64)
    wanted = np.maximum(rounded.astype(dtype).astype(np.float64) + bias, 0)
    features = tf.cast(network.features(tf.constant(network.initial), x), tf.float64)
    # Rounded once more at the end, on some processors towards zero, which is up to a whole digit;
    # without rounding what goes in, small sums of large terms are further away.
    tolerance = {"rtol": 4.1 * HALF_A_DIGIT[numbers], "atol": 1e-6}
    np.testing.assert_allclose(features, wanted, **tolerance)
    plain = np.maximum(x.astype(np.float64) @ kernel.astype(np.float64) + bias, 0)
    assert not np.allclose(features, plain, **tolerance)


def test_fractions_of_quantiles_keep_all_their_digits() -> None:
    with precision.computing("bfloat16"):
        layer = QuantileEmbedding(64, 8, keras.initializers.GlorotUniform(seed=1))
    features, taus = np.ones((1, 32), np.float32), np.float32([[0.501, 0.502, 0.999]])
    found = tf.cast(layer(features, tf.constant(taus)), tf.float64)
    cosines = np.cos(np.pi * taus[0, :, None].astype(np.float64) * np.arange(64))
    kernel = layer.kernel.numpy().astype(np.float64)
    wanted = np.maximum(cosines @ kernel, 0)
    # Fractions rounded to bfloat16 are 0.5 and 1, whose 64th cosines are others altogether.
    coarse = np.maximum(np.cos(np.pi * np.array([[0.5], [0.5], [1]]) * np.arange(64)) @ kernel, 0)
    assert np.abs(coarse - wanted).max() > 0.2
    np.testing.assert_allclose(found[0], wanted, atol=0.02)


def test_a_memory_has_more_digits_than_what_goes_into_it() -> None:
    with precision.computing("bfloat16"):
        lstm = LSTM(8, 3, 1)
    state = tf.zeros([4, lstm.state_size])
    features = tf.cast(tf.random.stateless_normal([4, 5], [1, 2]), tf.bfloat16)
    for _ in range(5):
        output, state = lstm(features, state)
    assert output.dtype == state.dtype == tf.float32
    rounded = tf.cast(tf.cast(state, tf.bfloat16), tf.float32)
    assert float(tf.reduce_max(tf.abs(state - rounded))) > 1e-4


def test_what_is_built_afterwards_computes_in_float32() -> None:
    with pytest.raises(UsageError):
        build_custom("mlp", "float16")
    assert keras.layers.Dense(1).compute_dtype == "float32"


def test_a_users_network_is_built_with_the_policy_and_ends_in_float32() -> None:
    full, low = (build_custom("ends_in_float32", each) for each in ("float32", "bfloat16"))
    vector = tf.constant(full.initial)
    wanted, found = (computed(each, vector, small_networks.VECTOR)[1] for each in (full, low))
    error = float(tf.reduce_max(tf.abs(found - wanted)) / tf.reduce_max(tf.abs(wanted)))
    assert found.dtype == tf.float32
    assert 1e-5 < error < 0.02


def test_a_users_network_whose_values_would_be_rounded_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        build_custom("mlp", "bfloat16")
    assert str(refused.value) == (
        "--network=support.user_networks:mlp: its outputs are bfloat16 with --precision=bfloat16, "
        "too few digits for values: give its last layer dtype='float32'"
    )
