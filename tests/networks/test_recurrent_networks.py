"""Recurrent Q-networks: against an LSTM in NumPy, step by step, and compiled."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from support.small_networks import (
    NONE,
    VALUES,
    VECTOR,
    build,
    network,
    observations,
    random_vector,
)

from ps_dqn.config import Network, Value
from ps_dqn.networks.network import QNetwork

RECURRENT = network((6, 5), "tanh", recurrent=3)


def lstm(built: QNetwork, x: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One step, from [B, F] and [B, 2U + 2] to [B, U] and [B, 2U]."""
    layer = next(each for each in built.as_keras().layers if each.name.startswith("lstm"))
    kernel, recurrent, bias = (each.numpy() for each in layer.weights)
    hidden, memory, before = np.split(state, [3, 6], axis=1)
    actions = np.eye(4)[before[:, 0].astype(int)][:, 1:]
    x = np.concatenate([x, actions, before[:, 1:]], axis=1)
    gates = np.split(x @ kernel + hidden @ recurrent + bias, 4, axis=1)
    enter, keep, leave = (1 / (1 + np.exp(-gates[i])) for i in (0, 1, 3))
    memory = keep * memory + enter * np.tanh(gates[2])
    hidden = leave * np.tanh(memory)
    return hidden, np.concatenate([hidden, memory], axis=1)


def sequences(built: QNetwork) -> tuple[tf.Tensor, list[np.ndarray], np.ndarray]:
    """Parameters; observations [2, 5, 4], starts, actions and rewards [2, 5]; a state [2, 8]."""
    starts = np.array([[False, False, True, False, False], [True, False, False, False, True]])
    rng = np.random.default_rng(4)
    actions = np.array([[0, 2, 1, 0, 1], [2, 2, 0, 1, 0]], np.int32)
    rewards = rng.normal(size=(2, 5)).astype(np.float32)
    state = rng.normal(size=(2, 8)).astype(np.float32)
    state[:, 6] = 3, 0  # action 2, and none
    along = [observations(VECTOR, 2, 5), starts, actions, rewards]
    return tf.constant(random_vector(built)), along, state


def done(state: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """A network's state with what was done and paid, as whoever acts puts it in."""
    parts = [state[:, :6], actions[:, None] + 1, rewards[:, None]]
    return np.concatenate(parts, axis=1, dtype=np.float32)


def test_unroll_is_an_lstm_that_forgets_where_episodes_start() -> None:
    built = build(RECURRENT)
    parameters, along, state = sequences(built)
    seen, starts, actions, rewards = along
    built.assign(parameters.numpy())
    found, last = built.unroll(parameters, *along, state)
    encoded = built.features(parameters, seen.reshape(10, 4)).numpy().reshape(2, 5, 6)
    for step in range(5):
        state = np.where(starts[:, step, None], 0, state)
        hidden, memory = lstm(built, encoded[:, step], state)
        state = done(memory, actions[:, step], rewards[:, step])
        np.testing.assert_allclose(found[:, step], hidden, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, state, rtol=1e-4, atol=1e-5)


def test_acting_step_by_step_is_the_unrolled_policy() -> None:
    built = build(RECURRENT)
    parameters, (seen, starts, actions, rewards), state = sequences(built)
    along = seen, np.zeros_like(starts), actions, rewards
    found, last = built.unroll(parameters, *along, state)
    outputs = built.outputs(parameters, tf.reshape(found, [10, 3])).numpy().reshape(2, 5, 3)
    for step in range(5):
        greedy, after, _ = built.act(parameters, seen[:, step], state)
        assert greedy.numpy().tolist() == outputs[:, step].argmax(axis=-1).tolist()
        assert not after.numpy()[:, 6:].any()
        state = done(after.numpy(), actions[:, step], rewards[:, step])
    np.testing.assert_allclose(last, state, rtol=1e-5, atol=1e-6)


def test_what_a_step_led_to_is_read_after_it_whatever_comes_next() -> None:
    built = build(RECURRENT)
    parameters, along, state = sequences(built)
    seen, starts, actions, rewards = along
    built.assign(parameters.numpy())
    led_to = observations(VECTOR, 4, 5)[2:]  # none of those that come next
    found = built.following(parameters, led_to, (*along, state))
    before, after = (
        built.features(parameters, each.reshape(10, 4)).numpy().reshape(2, 5, 6)
        for each in (seen, led_to)
    )
    for step in range(5):
        state = np.where(starts[:, step, None], 0, state)
        _, memory = lstm(built, before[:, step], state)
        state = done(memory, actions[:, step], rewards[:, step])
        expected, _ = lstm(built, after[:, step], state)
        np.testing.assert_allclose(found[:, step], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [6, 7], ids=["action", "reward"])
def test_the_last_step_is_read_until_an_episode_begins(number: int) -> None:
    built = build(RECURRENT)
    parameters, along, state = sequences(built)
    other = state.copy()
    other[:, number] = 1.0
    found, changed = (built.unroll(parameters, *along, each)[0].numpy() for each in (state, other))
    differs = (found != changed).any(axis=-1)
    assert differs.tolist() == [[True, True, False, False, False], [False] * 5]


def test_lstm_begins_by_remembering() -> None:
    parts = build(RECURRENT).cut(tf.constant(build(RECURRENT).initial))
    (bias,) = [part.numpy() for part in parts if part.shape == (12,)]
    assert bias.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_without_an_lstm_unroll_is_the_encoder_and_hands_the_state_through() -> None:
    built = build(network((6, 5)))
    parameters, along, _ = sequences(built)
    seen, state = along[0], tf.zeros([2, 0])
    features, after = built.unroll(parameters, *along, state)
    expected = built.features(parameters, seen.reshape(10, 4)).numpy().reshape(2, 5, 6)
    np.testing.assert_allclose(features, expected, rtol=1e-6)
    assert after is state


@pytest.mark.parametrize(
    ("config", "value"),
    [
        (RECURRENT, NONE),
        pytest.param(
            dataclasses.replace(RECURRENT, dueling=True), VALUES[3], marks=pytest.mark.slow
        ),
        (network((6, 5)), VALUES[1]),
    ],
    ids=["recurrent", "recurrent_dueling_iqn", "c51"],
)
def test_gradient_is_the_same_compiled_in_a_loop_of_updates(config: Network, value: Value) -> None:
    built = build(config, value=value)
    parameters, along, state = sequences(built)
    state = state[:, : built.state_size]

    def update(parameters: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            weights = built.cut(parameters)
            features, after = built.unroll(weights, *along, state)
            outputs = built.outputs(weights, tf.reshape(features, [10, features.shape[-1]]))
            loss = tf.reduce_mean(outputs**2) + tf.reduce_sum(after**2)
        return parameters - 0.01 * tape.gradient(loss, parameters)

    @tf.function(jit_compile=True, autograph=False)
    def compiled(parameters: tf.Tensor) -> tf.Tensor:
        loop = [tf.constant(0), parameters]
        return tf.while_loop(
            lambda i, _: i < 2, lambda i, each: (i + 1, update(each)), loop, maximum_iterations=2
        )[1]

    expected = update(update(parameters))
    assert np.abs(expected - parameters).max() > 1e-3
    np.testing.assert_allclose(compiled(parameters), expected, rtol=1e-4, atol=1e-5)
    assert compiled.get_concrete_function(parameters).variables == (), "no variable is read"
