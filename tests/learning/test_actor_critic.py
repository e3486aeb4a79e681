"""The loss of a policy and of the values of states, against slow references in NumPy."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.four_numbers import close, learn, slopes
from support.option_values import A3C

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.minibatches import make_source
from ps_dqn.replay.batch import Rollout

STEPS, ENVIRONMENTS, FEATURES, ACTIONS = 3, 2, 2, 3
RESET = (1, 1)
GAMMA, LAMBDA = 0.9, 0.8
ENVIRONMENT = EnvironmentSpec((FEATURES,), np.dtype(np.float32), ACTIONS, None, has_masks=True)
SMALL = {
    **A3C,
    "trace_lambda": LAMBDA,
    "loss": "squared",
    "hidden_sizes": (),
    "layer_norm": False,
    "num_envs_per_worker": ENVIRONMENTS,
    "local_updates": 2,
    "update_period": 3,
    "batch_size": 3,
    "entropy_bonus": 0.2,
    "value_weight": 0.7,
}
# Kernel and bias of the policy, and of the value.
SIZE = (FEATURES + 1) * (ACTIONS + 1)
ONLINE = np.random.default_rng(3).normal(size=SIZE)


def random_rollout() -> Rollout:
    rng = np.random.default_rng(4)
    shape = STEPS, ENVIRONMENTS
    weights, masks = np.ones(shape, np.float32), rng.random((*shape, ACTIONS)) < 0.7
    actions = rng.integers(ACTIONS, size=shape).astype(np.int32)
    np.put_along_axis(masks, actions[..., None], True, axis=-1)
    weights[RESET] = 0
    continues = np.array([[1, 0], [1, 1], [0, 0]], np.float32)
    return Rollout(
        rng.normal(size=(*shape, FEATURES)).astype(np.float32),
        actions,
        rng.normal(size=shape).astype(np.float32),
        np.array([[GAMMA, 0], [GAMMA, GAMMA], [GAMMA, GAMMA]], np.float32),
        rng.normal(size=(*shape, FEATURES)).astype(np.float32),
        np.ones((*shape, ACTIONS), np.bool_),
        continues,
        weights,
        np.zeros(shape, np.bool_),
        np.zeros((ENVIRONMENTS, 0), np.float32),
        masks,
        rng.normal(-1.0, 0.7, size=(*shape, 1)).astype(np.float32),
        np.array([[5, 2, 0], [1, 3, 4]], np.int32),
    )


def source(**values: Any) -> Any:
    config = Config.from_values(SMALL | values)
    return make_source(config, networks.build(config.network, config.value, ENVIRONMENT, seed=1))


def value_of(w: np.ndarray, observation: np.ndarray) -> float:
    return float(observation @ w[-FEATURES - 1 : -1] + w[-1])


def log_policy(w: np.ndarray, rollout: Rollout, at: tuple[int, int]) -> np.ndarray:
    kernel = w[: FEATURES * ACTIONS].reshape(FEATURES, ACTIONS)
    logits = rollout.observations[at] @ kernel + w[FEATURES * ACTIONS : -FEATURES - 1]
    logits = np.where(rollout.masks[at], logits, -1e9)
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def ratio(w: np.ndarray, rollout: Rollout, at: tuple[int, int]) -> float:
    taken = log_policy(w, rollout, at)[rollout.actions[at]]
    return float(np.exp(taken - rollout.log_probs[at][0]))


def judged(rollout: Rollout, rho: Any, trace: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns and advantages, with the parameters before the first update."""
    returns, advantages = np.zeros((2, STEPS, ENVIRONMENTS))
    for e in range(ENVIRONMENTS):
        correction = 0.0
        for t in reversed(range(STEPS)):
            at = t, e
            value = value_of(ONLINE, rollout.observations[at])
            following = value_of(ONLINE, rollout.next_observations[at])
            discount, goes_on = rollout.discounts[at], rollout.continues[at]
            later = LAMBDA * goes_on * correction
            advantages[at] = rollout.rewards[at] + discount * (following + later) - value
            error = rho(at) * (rollout.rewards[at] + discount * following - value)
            correction = error + discount * goes_on * LAMBDA * trace(at) * correction
            returns[at] = value + correction
    return returns, advantages


def check(rollout: Rollout, index: int, options: dict[str, Any], rho: Any, trace: Any) -> None:
    # The gradient is taken elsewhere than where returns were found, as in later updates.
    moved = ONLINE + np.random.default_rng(8).normal(0, 0.3, SIZE)
    found, gradient = learn(source(**options), rollout, index, online=moved, target=ONLINE)
    returns, advantages = judged(rollout, *(lambda at, f=f: f(ONLINE, at) for f in (rho, trace)))
    picked = [divmod(each, ENVIRONMENTS) for each in rollout.order[index]]
    weighed = {at: rho(moved, at) * advantages[at] for at in picked}

    def loss(w: np.ndarray) -> float:
        total = 0.0
        for at in picked:
            logs = log_policy(w, rollout, at)
            error = returns[at] - value_of(w, rollout.observations[at])
            entropy = -(np.exp(logs) * logs).sum()
            term = -weighed[at] * logs[rollout.actions[at]] + 0.7 * error**2 / 2 - 0.2 * entropy
            total += rollout.weights[at] * term
        return total / len(picked)

    logs = [log_policy(moved, rollout, at) for at in picked]
    assert float(found.loss) == close(loss(moved))
    assert gradient == close(slopes(loss, moved))
    assert float(found.entropy) == close(np.mean([-(np.exp(each) * each).sum() for each in logs]))
    values = [value_of(moved, rollout.observations[at]) for at in picked]
    assert float(found.q_value) == close(np.mean(values))


@pytest.mark.parametrize("index", [0, 1])
def test_the_loss_is_that_of_a3c(index: int) -> None:
    def one(w: np.ndarray, at: tuple[int, int]) -> float:
        return 1.0

    check(random_rollout(), index, {}, one, one)


@pytest.mark.parametrize("index", [0, 1])
def test_v_trace_weighs_by_how_likely_steps_are_by_now(index: int) -> None:
    rollout = random_rollout()
    ratios = [ratio(ONLINE, rollout, at) for at in np.ndindex(STEPS, ENVIRONMENTS)]
    assert min(ratios) < 0.9
    assert max(ratios) > 1.6

    def rho(w: np.ndarray, at: tuple[int, int]) -> float:
        return min(1.5, ratio(w, rollout, at))

    def trace(w: np.ndarray, at: tuple[int, int]) -> float:
        return min(0.9, ratio(w, rollout, at))

    options = {"v_trace": True, "rho_clip": 1.5, "trace_clip": 0.9}
    check(rollout, index, options, rho, trace)


def test_a_network_with_a_memory_judges_along_each_environment() -> None:
    config = Config.from_values(
        SMALL | {"recurrent_size": 2, "local_updates": 2, "update_period": 3, "batch_size": 3}
    )
    network = networks.build(config.network, config.value, ENVIRONMENT, seed=1)
    rollout = random_rollout()
    states = np.random.default_rng(1).normal(size=(ENVIRONMENTS, network.state_size))
    states[:, -2] = [0, 2]
    starts = np.zeros((STEPS, ENVIRONMENTS), np.bool_)
    starts[1, 1] = True
    order = np.array([[1, 3, 5], [0, 2, 4]], np.int32)
    rollout = rollout._replace(states=states.astype(np.float32), starts=starts, order=order)
    given, vector = make_source(config, network), tf.constant(network.initial)
    batch = Rollout(*map(tf.constant, rollout))
    prepared = given.prepare(vector, batch, tf.constant([1, 2]))
    for index, env in enumerate((1, 0)):
        minibatch = given.minibatch(batch, index)
        # What the loss sees of a state is what it was judged by: where nothing comes after a
        # step but its own error, the return less the advantage is the state's value.
        found = given.loss(
            vector,
            minibatch,
            tf.nest.map_structure(lambda each, index=index: each[index], prepared),
            tf.constant([1, 2]),
            0.0,
        )
        difference = prepared.returns[index] - prepared.advantages[index]
        assert float(found.q_value) == close(np.mean(difference)), env
