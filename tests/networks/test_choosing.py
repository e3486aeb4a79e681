"""What is done by what a head says: a policy's draws, and its likeliest action."""

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks import choosing
from ps_dqn.networks.network import QNetwork

POLICY = Value(algorithm="a3c", double_dqn=False)
LOGITS = np.array([0.5, -1.0, 2.0], np.float32)
DRAWS = 40_000


def chosen(masks: np.ndarray | None = None, seed: int | None = 1) -> choosing.Chosen:
    """Of so many rows with the same logits and a value that must not count."""
    outputs = tf.tile(tf.constant([[*LOGITS, 99.0]], tf.float32), [DRAWS, 1])
    seeds = None if seed is None else tf.constant([seed, 7])
    rows = None if masks is None else tf.tile(tf.constant([masks]), [DRAWS, 1])
    return choosing.choose(outputs, POLICY, (), seeds, rows)


@pytest.mark.parametrize("masks", [None, np.array([True, False, True])], ids=["all", "allowed"])
def test_actions_are_drawn_as_likely_as_the_policy_says(masks: np.ndarray | None) -> None:
    actions, log_probs = chosen(masks)
    weights = np.exp(LOGITS) * (1 if masks is None else masks)
    probabilities = weights / weights.sum()
    shares = np.bincount(actions, minlength=3) / DRAWS
    np.testing.assert_allclose(shares, probabilities, atol=4 * 0.5 / DRAWS**0.5)
    np.testing.assert_allclose(np.exp(log_probs[:, 0]), probabilities[actions], rtol=1e-5)


def test_each_seed_draws_anew() -> None:
    first, again, other = (chosen(seed=seed).actions.numpy() for seed in (1, 1, 2))
    assert (first == again).all()
    assert 0.2 < np.mean(first != other) < 0.7


def test_without_a_seed_it_is_the_likeliest() -> None:
    assert set(chosen(seed=None).actions.numpy()) == {2}
    assert set(chosen(np.array([True, True, False]), seed=None).actions.numpy()) == {0}


def test_entropy_is_that_of_the_policy() -> None:
    outputs = tf.constant([[0.0, 0.0, 0.0, 5.0], [*LOGITS, 5.0]])
    found = choosing.entropy(choosing.log_policy(outputs, None)).numpy()
    shares = np.exp(LOGITS) / np.exp(LOGITS).sum()
    np.testing.assert_allclose(found, [np.log(3), -(shares * np.log(shares)).sum()], rtol=1e-5)
    masked = choosing.log_policy(outputs, tf.constant([[True, True, False]] * 2))
    np.testing.assert_allclose(choosing.entropy(masked)[0], np.log(2), rtol=1e-5)


def built(**values: object) -> QNetwork:
    environment = EnvironmentSpec((4,), np.dtype(np.float32), 3, None)
    return networks.build(Network(**values), POLICY, environment, seed=3)  # type: ignore[arg-type]


def test_the_head_begins_without_a_preference() -> None:
    network = built(hidden_sizes=(32, 32))
    seen = tf.constant(np.random.default_rng(0).normal(size=(20, 4)), tf.float32)
    features = network.features(network.initial, seen)
    outputs = network.outputs(network.initial, features)
    assert outputs.shape == (20, 4)
    assert np.abs(network.q_values(outputs)).max() < 0.1, "logits"
    assert np.ptp(choosing.state_values(outputs)) > 0.1
    assert network.as_keras()(seen).shape == (20, 3), "what is saved has the logits alone"


def test_a_policy_acts_by_its_seed_and_is_evaluated_without() -> None:
    network = built(hidden_sizes=(8,))
    seen, state = tf.random.stateless_normal([200, 4], [1, 2]), tf.zeros([200, 0])
    first, _, log_probs = network.act(network.initial, seen, state, tf.constant([1, 2]))
    assert log_probs.shape == (200, 1)
    greedy, *_ = network.act(network.initial, seen, state)
    assert 0.3 < np.mean(first.numpy() != greedy.numpy()) < 0.9
