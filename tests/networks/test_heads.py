"""Heads: dueling, distributions, quantile embedding and noise against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks import heads
from ps_dqn.networks.layers import NoisyDense, QuantileEmbedding, run

SPEC = EnvironmentSpec((4,), np.dtype(np.float32), 3, None)
VALUES = {
    "none": Value(value_distribution="none"),
    "hl_gauss": Value(value_distribution="hl_gauss", num_atoms=5, v_min=-1.0, v_max=4.0),
    "c51": Value(value_distribution="c51", num_atoms=5, v_min=-1.0, v_max=3.0),
    "qr_dqn": Value(value_distribution="qr_dqn", num_quantiles=5),
    "iqn": Value(value_distribution="iqn", num_policy_quantiles=5, num_cosines=6),
}


def network(
    sizes: tuple[int, ...] = (5,), dueling: bool = False, noisy: bool = False, sigma: float = 0.5
) -> Network:
    return Network(
        hidden_sizes=sizes,
        activation="relu",
        layer_norm=False,
        dueling=dueling,
        noisy=noisy,
        noisy_sigma=sigma,
    )


def build(config: Network, value: str = "none", seed: int = 0) -> networks.QNetwork:
    return networks.build(config, VALUES[value], SPEC, seed)


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def layers_of(built: networks.QNetwork, kind: type) -> list[keras.layers.Layer]:
    return [layer for layer in built.as_keras().layers if isinstance(layer, kind)]


def streams(built: networks.QNetwork) -> dict[int, list[np.ndarray]]:
    """By its number of outputs, a stream's weights: kernel and bias, hidden and last."""
    found = {}
    for last in layers_of(built, keras.layers.Dense):
        before = last.input._keras_history.operation
        if isinstance(before, keras.layers.Activation):
            hidden = before.input._keras_history.operation
            found[last.units] = [each.numpy() for each in (*hidden.weights, *last.weights)]
    return found


def forward(weights: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    kernel, bias, last_kernel, last_bias = weights
    return np.maximum(x @ kernel + bias, 0) @ last_kernel + last_bias


@pytest.mark.parametrize(
    ("value", "number"), [("none", 1), ("hl_gauss", 5), ("c51", 5), ("qr_dqn", 5)]
)
def test_dueling_is_the_value_and_the_advantage_less_its_mean(value: str, number: int) -> None:
    built = build(network(dueling=True), value)
    vector = normal(built.num_parameters)
    built.assign(vector)
    x = normal(6, 4, seed=2)
    weights = streams(built)
    assert weights.keys() == {number, 3 * number}
    state = forward(weights[number], x).reshape(6, 1, number)
    advantage = forward(weights[3 * number], x).reshape(6, 3, number)
    expected = state + advantage - advantage.mean(axis=1, keepdims=True)
    found = built.outputs(tf.constant(vector), x)
    assert found.shape == ((6, 3) if value == "none" else (6, 3, 5))
    np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=1e-4, atol=1e-4)


def test_dueling_without_hidden_layers_has_two_output_layers() -> None:
    built = build(network((), dueling=True))
    assert [layer.units for layer in layers_of(built, keras.layers.Dense)] == [1, 3]
    assert built.num_parameters == (4 * 1 + 1) + (4 * 3 + 3)


def test_last_hidden_layer_alone_exists_twice() -> None:
    built = build(network((7, 6, 5), dueling=True))
    units = [layer.units for layer in layers_of(built, keras.layers.Dense)]
    assert sorted(units) == [1, 3, 5, 5, 6, 7]


@pytest.mark.parametrize(
    ("value", "middles"), [("c51", [-1, 0, 1, 2, 3]), ("hl_gauss", [-0.5, 0.5, 1.5, 2.5, 3.5])]
)
def test_a_categorical_distribution_counts_with_its_mean(value: str, middles: list[float]) -> None:
    logits = normal(4, 3, 5)
    share = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    found = heads.expected_values(logits, VALUES[value])
    np.testing.assert_allclose(found, share @ middles, rtol=1e-5)


@pytest.mark.parametrize("value", ["qr_dqn", "iqn"])
def test_quantiles_are_averaged(value: str) -> None:
    quantiles = normal(4, 3, 5)
    found = heads.expected_values(quantiles, VALUES[value])
    np.testing.assert_allclose(found, quantiles.mean(axis=-1), rtol=1e-5, atol=1e-6)


def implicit_quantiles(built: networks.QNetwork, x: np.ndarray, taus: np.ndarray) -> np.ndarray:
    """IQN's head, one quantile fraction at a time: [K, A, N]."""
    (embedding,) = layers_of(built, QuantileEmbedding)
    kernel, bias = (each.numpy() for each in embedding.weights)
    last = streams(built)
    found = np.zeros((len(x), 3, taus.shape[1]))
    for row in range(len(x)):
        for j, tau in enumerate(taus[row]):
            cosines = np.cos(np.pi * np.arange(6) * tau)
            product = x[row] * np.maximum(cosines @ kernel + bias, 0)
            advantage = forward(last[3], product)
            found[row, :, j] = advantage
            if 1 in last:
                found[row, :, j] += forward(last[1], product) - advantage.mean()
    return found


@pytest.mark.parametrize("dueling", [False, True], ids=["single", "dueling"])
def test_iqn_multiplies_features_by_embedded_fractions(dueling: bool) -> None:
    built = build(network(dueling=dueling), "iqn")
    vector = normal(built.num_parameters)
    built.assign(vector)
    x, taus = normal(6, 4, seed=2), np.random.default_rng(3).random((6, 7), np.float32)
    found = built.outputs(tf.constant(vector), x, taus=taus)
    np.testing.assert_allclose(found, implicit_quantiles(built, x, taus), rtol=1e-3, atol=1e-3)


def test_iqn_acts_by_the_midpoints() -> None:
    built = build(network(), "iqn")
    vector = normal(built.num_parameters)
    built.assign(vector)
    x = normal(6, 4, seed=2)
    midpoints = np.tile(np.array([0.1, 0.3, 0.5, 0.7, 0.9], np.float32), (6, 1))
    expected = implicit_quantiles(built, x, midpoints)
    parameters = tf.constant(vector)
    np.testing.assert_allclose(built.outputs(parameters, x), expected, rtol=1e-3, atol=1e-3)
    actions, _, _ = built.act(parameters, x, tf.zeros([6, 0]))
    assert actions.numpy().tolist() == expected.mean(axis=-1).argmax(axis=-1).tolist()
    np.testing.assert_allclose(built.as_keras()(x), expected.mean(axis=-1), rtol=1e-3, atol=1e-3)


def noisy_dense(fan_in: int = 50, units: int = 40, salt: int = 0) -> NoisyDense:
    layer = NoisyDense(units, 0.5, salt, keras.initializers.Zeros())
    layer.build((None, fan_in))
    return layer


def noise_of(layer: NoisyDense, seed: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """What is added to the kernel and to the bias where all deviations are 1 and means are 0."""
    for weight in (layer.kernel_sigma, layer.bias_sigma):
        weight.assign(np.ones(weight.shape))
    fan_in = layer.kernel.shape[0]
    rows = np.concatenate([np.zeros((1, fan_in)), np.eye(fan_in)]).astype(np.float32)
    outputs = run([layer], rows, tf.constant(seed)).numpy()
    return outputs[1:] - outputs[0], outputs[0]


def test_noise_is_factorised() -> None:
    kernel, bias = noise_of(noisy_dense(), (3, 4))
    # Each row is the bias' noise times one number.
    factors = kernel @ bias / (bias @ bias)
    np.testing.assert_allclose(kernel, np.outer(factors, bias), rtol=1e-3, atol=1e-4)
    # f(e) = sgn(e) sqrt|e| of a standard normal e: its square is |e|, of mean sqrt(2/π).
    both = np.concatenate([factors, bias])
    np.testing.assert_allclose((both**2).mean(), np.sqrt(2 / np.pi), atol=0.2)
    np.testing.assert_allclose((both**4).mean(), 1, atol=0.5)
    assert abs(both.mean()) < 0.3
    assert 0.3 < (both > 0).mean() < 0.7


def test_noise_is_scaled_by_the_deviations_and_added_to_the_means() -> None:
    layer = noisy_dense(4, 3)
    kernel_noise, bias_noise = noise_of(layer, (3, 4))
    values = [normal(*weight.shape, seed=i) for i, weight in enumerate(layer.weights)]
    layer.set_weights(values)
    named = {weight.name: value for weight, value in zip(layer.weights, values, strict=True)}
    x = normal(6, 4)
    kernel = named["kernel"] + named["kernel_sigma"] * kernel_noise
    bias = named["bias"] + named["bias_sigma"] * bias_noise
    np.testing.assert_allclose(
        run([layer], x, tf.constant([3, 4])), x @ kernel + bias, rtol=1e-4, atol=1e-4
    )
    mean = x @ named["kernel"] + named["bias"]
    np.testing.assert_allclose(layer(x), mean, rtol=1e-4, atol=1e-5)


def test_layers_and_seeds_draw_differently() -> None:
    draws = [
        noise_of(noisy_dense(salt=salt), seed)[1]
        for salt, seed in [(0, (3, 4)), (1, (3, 4)), (0, (3, 5)), (0, (4, 4)), (1, (3, 3))]
    ]
    assert (noise_of(noisy_dense(salt=0), (3, 4))[1] == draws[0]).all()
    correlation = np.corrcoef(draws)
    assert np.abs(correlation - np.eye(len(draws))).max() < 0.6
    built = build(network((5, 5, 5), noisy=True, dueling=True))
    salts = [layer.salt for layer in layers_of(built, NoisyDense)]
    assert sorted(salts) == list(range(6)), "every layer its own"


def test_layers_in_a_row_draw_differently_from_one_seed() -> None:
    first, second = noisy_dense(40, 40, salt=0), noisy_dense(40, 40, salt=1)
    for layer in (first, second):
        layer.bias_sigma.assign(np.ones(40))
        layer.kernel_sigma.assign(np.zeros((40, 40)))
    zeros, seed = np.zeros((1, 40), np.float32), tf.constant([3, 4])
    alone = run([first], zeros, seed).numpy()[0]
    both = run([first, second], zeros, seed).numpy()[0]  # the second's bias: kernels are zero
    assert abs(np.corrcoef(alone, both)[0, 1]) < 0.6


def test_every_dense_layer_is_noisy_and_starts_as_a_plain_one_with_small_deviations() -> None:
    noisy = build(network((9, 5), noisy=True, sigma=0.3))
    plain = build(network((9, 5)))
    assert layers_of(noisy, keras.layers.Dense) == []
    pairs = zip(layers_of(noisy, NoisyDense), layers_of(plain, keras.layers.Dense), strict=True)
    for layer, other in pairs:
        np.testing.assert_array_equal(layer.kernel, other.kernel)
        np.testing.assert_array_equal(layer.bias, other.bias)
        deviation = 0.3 / np.sqrt(layer.kernel.shape[0])
        np.testing.assert_allclose(layer.kernel_sigma, deviation, rtol=1e-6)
        np.testing.assert_allclose(layer.bias_sigma, deviation, rtol=1e-6)
    assert noisy.num_parameters == 2 * plain.num_parameters


def test_without_noise_a_noisy_network_is_its_means() -> None:
    noisy, plain = build(network((9, 5), noisy=True)), build(network((9, 5)))
    x = normal(6, 4)

    def values(built: networks.QNetwork, noise: tuple[int, int] | None) -> np.ndarray:
        parameters = tf.constant(built.initial)
        seed = None if noise is None else tf.constant(noise)
        return built.outputs(parameters, built.features(parameters, x, seed), seed).numpy()

    expected = values(plain, None)
    np.testing.assert_allclose(values(noisy, None), expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(values(noisy, (1, 2)), expected, atol=0.01)
    assert (values(noisy, (1, 2)) == values(noisy, (1, 2))).all()
    assert not np.allclose(values(noisy, (1, 2)), values(noisy, (1, 3)), atol=0.01)
    np.testing.assert_array_equal(
        values(plain, (1, 2)), expected, "noise of a plain one is ignored"
    )


def test_noise_reaches_the_policy() -> None:
    built = build(network((9, 5), noisy=True, sigma=1.0))
    parameters, x = tf.constant(built.initial), normal(50, 4)

    def actions(noise: tf.Tensor | None) -> tuple[int, ...]:
        return tuple(built.act(parameters, x, tf.zeros([50, 0]), noise)[0].numpy().tolist())

    assert len({actions(tf.constant([1, seed])) for seed in range(5)}) > 1
    assert actions(tf.constant([1, 2])) == actions(tf.constant([1, 2]))
    mean = built.outputs(parameters, built.features(parameters, x)).numpy()
    assert actions(None) == tuple(mean.argmax(axis=-1).tolist())
