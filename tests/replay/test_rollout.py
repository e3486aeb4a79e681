"""Rollouts: how steps become one, and what is learned from it, on a linear network in NumPy."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, Step
from ps_dqn.learning.learner import Learned, make_learner
from ps_dqn.replay.batch import Rollout
from ps_dqn.replay.rollout import RolloutBuffer

GAMMA, LAMBDA, RATE = 0.9, 0.6, 0.1
STEPS, ENVS, FEATURES, ACTIONS = 3, 2, 2, 2
NOBODY, NOTHING = np.zeros(0, np.int64), np.zeros((0, 1), np.float32)


def buffer(steps: int = STEPS, num_envs: int = ENVS, seed: int = 0) -> RolloutBuffer:
    rng = np.random.default_rng(seed)
    return RolloutBuffer(
        steps, num_envs, (1,), np.dtype(np.float32), 1, 0, 0, False, False, GAMMA, rng
    )


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def append(
    into: RolloutBuffer,
    before: tuple[float, ...],
    after: tuple[float, ...],
    terminated: tuple[bool, ...] = (False, False),
    truncated: tuple[bool, ...] = (False, False),
    is_transition: tuple[bool, ...] = (True, True),
    final: dict[int, float] | None = None,
) -> None:
    """One step of two environments; the reward is 10 times what was acted on."""
    final_envs, finals = (
        (NOBODY, NOTHING) if final is None else (list(final), column(*final.values()))
    )
    step = Step(
        observations=column(*before),
        actions=np.array([0, 1]),
        rewards=10 * np.array(before),
        terminated=np.array(terminated),
        truncated=np.array(truncated),
        is_transition=np.array(is_transition),
        next_observations=column(*after),
        final_envs=np.array(final_envs, np.int64),
        final_observations=finals,
    )
    into.append(step)


def test_a_rollout_that_was_given_up_is_forgotten() -> None:
    steps = buffer()
    append(steps, (70, 80), (71, 81))
    steps.begin()
    for t in range(STEPS):
        append(steps, (t, t), (t + 1, t + 1))
    rollout = steps.sample(1, 6)
    assert rollout.observations[..., 0].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_a_reset_of_its_own_is_a_step_that_does_not_count() -> None:
    # Environment 0 is cut off at the first step, environment 1 terminates at the second.
    steps = buffer()
    append(steps, (1, 5), (2, 6), truncated=(True, False))
    append(steps, (2, 6), (3, 7), terminated=(False, True), is_transition=(False, True))
    append(steps, (3, 7), (4, 8), is_transition=(True, False))
    rollout = steps.sample(1, 6)
    assert rollout.observations[..., 0].tolist() == [[1, 5], [2, 6], [3, 7]]
    assert rollout.next_observations[..., 0].tolist() == [[2, 6], [3, 7], [4, 8]]
    assert rollout.actions.tolist() == [[0, 1]] * 3
    assert rollout.rewards.tolist() == [[10, 50], [20, 60], [30, 70]]
    assert rollout.discounts.tolist() == pytest.approx(
        np.array([[0.9, 0.9], [0.9, 0.0], [0.9, 0.9]])
    )
    assert rollout.continues.tolist() == [[0, 1], [1, 0], [0, 0]], "nothing follows the last step"
    assert rollout.weights.tolist() == [[1, 1], [0, 1], [1, 0]]


def test_a_reset_within_the_step_leaves_the_last_observation_apart() -> None:
    steps = buffer(steps=2)
    append(steps, (1, 5), (100, 200), (False, True), (True, False), final={0: 2, 1: 6})
    append(steps, (100, 200), (101, 300), truncated=(False, True), final={1: 201})
    rollout = steps.sample(1, 4)
    assert rollout.observations[..., 0].tolist() == [[1, 5], [100, 200]]
    assert rollout.next_observations[..., 0].tolist() == [[2, 6], [101, 201]]
    assert rollout.discounts.tolist() == pytest.approx(np.array([[0.9, 0.0], [0.9, 0.9]]))
    assert rollout.continues.tolist() == [[0, 0], [0, 0]]
    assert rollout.weights.tolist() == [[1, 1], [1, 1]]


def fill(into: RolloutBuffer, steps: int = STEPS, start: int = 0) -> None:
    for t in range(start, start + steps):
        append(into, (t, t + 0.5), (t + 1, t + 1.5))


def test_every_step_is_learned_from_once_an_epoch() -> None:
    steps = buffer()
    fill(steps)
    order = steps.sample(6, 3).order
    assert (order.shape, order.dtype) == ((6, 3), np.int32)
    epochs = order.reshape(3, 6).tolist()
    assert all(sorted(epoch) == list(range(6)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 3, "each in an order of its own"
    # One minibatch may be several epochs.
    fill(steps)
    assert sorted(steps.sample(1, 12).order[0].tolist()) == sorted([*range(6), *range(6)])


def test_the_generator_decides_the_order() -> None:
    orders = []
    for seed in (1, 1, 2):
        steps = buffer(seed=seed)
        fill(steps)
        orders.append(steps.sample(2, 6).order.tolist())
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_what_was_taken_is_not_written_to_by_the_next_rollout() -> None:
    steps = buffer()
    fill(steps)
    first = steps.sample(1, 6)
    kept = [np.array(array) for array in first]
    fill(steps, start=50)
    second = steps.sample(1, 6)
    assert all((now == then).all() for now, then in zip(first, kept, strict=True))
    assert second.observations[:, 0, 0].tolist() == [50, 51, 52]


def test_only_whole_rollouts_and_whole_epochs_are_taken() -> None:
    steps = buffer()
    fill(steps, 2)
    with pytest.raises(ValueError, match="2 of"):
        steps.sample(1, 6)
    fill(steps, 1)
    with pytest.raises(ValueError, match="1×8"):
        steps.sample(1, 8)
    assert steps.sample(1, 6).order.size == 6, "the rollout is still there"


ENVIRONMENT = EnvironmentSpec((FEATURES,), np.dtype(np.float32), ACTIONS, None)
# Four updates of three steps each: two epochs of three steps of two environments.
PQN = {
    "replay": "rollout",
    "trace_lambda": LAMBDA,
    "target_update_period": 0,
    "double_dqn": False,
    "n_step": 1,
    "num_envs_per_worker": ENVS,
    "local_updates": 4,
    "update_period": 3,
    "batch_size": 3,
    "hidden_sizes": (),
    "layer_norm": False,
    "loss": "squared",
    "optimizer": "sgd",
    "momentum": 0.5,
    "max_grad_norm": 0.0,
    "jit_compile": "none",
}


def random_rollout() -> Rollout:
    """An episode ends at step 0, another at step 1; the step after an end is a reset."""
    rng = np.random.default_rng(4)
    shape, size = (STEPS, ENVS), STEPS * ENVS
    return Rollout(
        rng.normal(size=(*shape, FEATURES)).astype(np.float32),
        rng.integers(ACTIONS, size=shape).astype(np.int32),
        rng.normal(size=shape).astype(np.float32),
        np.array([[0.9, 0.9], [0.0, 0.9], [0.9, 0.9]], np.float32),
        rng.normal(size=(*shape, FEATURES)).astype(np.float32),
        np.ones((*shape, 0), np.bool_),
        np.array([[1, 0], [0, 1], [0, 0]], np.float32),
        np.array([[1, 1], [1, 0], [0, 1]], np.float32),
        np.zeros(shape, np.bool_),
        np.zeros((ENVS, 0), np.float32),
        np.ones((*shape, 0), np.bool_),
        np.zeros((*shape, 0), np.float32),
        np.stack([rng.permutation(size), rng.permutation(size)]).reshape(4, 3).astype(np.int32),
    )


def learn(batch: Rollout, online: np.ndarray, **values: Any) -> Learned:
    config = Config.from_values(PQN | values)
    network = networks.build(config.network, config.value, ENVIRONMENT, seed=1)
    slots = np.zeros((1, network.num_parameters), np.float32)
    numbers = np.float32(0), np.float32(RATE), np.float32(0.3)
    learned = make_learner(config, network)(
        *map(tf.constant, (online, online * 0 + 9, slots, *numbers, SEED)),
        Rollout(*map(tf.constant, batch)),
    )
    return Learned(*(each.numpy() for each in learned))


SEED = np.array([1, 2], np.int32)
ONLINE = np.random.default_rng(3).normal(size=ACTIONS * (FEATURES + 1)).astype(np.float32)


def q_values(parameters: np.ndarray, observation: np.ndarray) -> np.ndarray:
    """Of a linear network, from the flat vector of its kernel and bias."""
    kernel = parameters[:-ACTIONS].reshape(FEATURES, ACTIONS)
    return observation @ kernel + parameters[-ACTIONS:]


def reference_returns(parameters: np.ndarray, batch: Rollout) -> np.ndarray:
    returns = np.zeros((STEPS, ENVS))
    for e in range(ENVS):
        for t in reversed(range(STEPS)):
            value = q_values(parameters, batch.next_observations[t, e]).max()
            if batch.continues[t, e]:
                value = (1 - LAMBDA) * value + LAMBDA * returns[t + 1, e]
            returns[t, e] = batch.rewards[t, e] + batch.discounts[t, e] * value
    return returns


def reference_learn(
    batch: Rollout, start: np.ndarray
) -> tuple[np.ndarray, list[float], list[list]]:
    """Descends on half the squared errors: the change, the losses and the errors."""
    parameters, velocity = start.astype(np.float64), np.zeros(start.size)
    returns = reference_returns(start, batch)  # once, from the parameters at the start
    losses, errors = [], []
    for minibatch in batch.order:
        gradient, loss, sizes = np.zeros(start.size), 0.0, []
        for t, e in (divmod(int(number), ENVS) for number in minibatch):
            observation, action = batch.observations[t, e], batch.actions[t, e]
            error = returns[t, e] - q_values(parameters, observation)[action]
            slope = np.zeros((FEATURES + 1, ACTIONS))
            slope[:, action] = [*observation, 1.0]
            gradient -= batch.weights[t, e] * error * slope.ravel() / len(minibatch)
            loss += batch.weights[t, e] * error**2 / 2 / len(minibatch)
            sizes.append(abs(error))
        velocity = 0.5 * velocity + gradient
        parameters = parameters - RATE * velocity
        losses.append(loss)
        errors.append(sizes)
    return parameters - start, losses, errors


@pytest.mark.parametrize("jit_compile", ["none", "update"])
def test_lambda_returns_are_found_once_and_learned_from_in_order(jit_compile: str) -> None:
    batch = random_rollout()
    learned = learn(batch, ONLINE, jit_compile=jit_compile)
    change, losses, errors = reference_learn(batch, ONLINE)
    np.testing.assert_allclose(learned.vector, change, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(learned.td_loss, sum(losses), rtol=1e-4)
    np.testing.assert_allclose(learned.errors, errors, rtol=1e-4, atol=1e-6)
    # Returns found anew for each update would be others, for the change is not small.
    moved = reference_returns(ONLINE + change, batch) - reference_returns(ONLINE, batch)
    assert np.abs(moved).max() > 0.05


def test_the_huber_loss_bounds_each_steps_part() -> None:
    batch = random_rollout()
    options = {"local_updates": 1, "update_period": 6, "batch_size": 6, "optimizer": "adam"}
    batch = batch._replace(order=np.arange(6, dtype=np.int32)[None])
    options |= {"momentum": 0.9, "huber_delta": 0.2, "loss": "huber"}
    learned = learn(batch, ONLINE, **options)
    returns, gradient = reference_returns(ONLINE, batch), np.zeros((FEATURES + 1, ACTIONS))
    for t, e in np.ndindex(STEPS, ENVS):
        observation, action = batch.observations[t, e], batch.actions[t, e]
        error = returns[t, e] - q_values(ONLINE, observation)[action]
        part = batch.weights[t, e] * np.clip(error, -0.2, 0.2) * np.array([*observation, 1.0])
        gradient[:, action] -= part / 6
    np.testing.assert_allclose(learned.vector, gradient.ravel(), rtol=1e-4, atol=1e-6)


def test_resets_leave_no_trace_in_what_is_learned() -> None:
    batch = random_rollout()
    resets = batch.weights == 0
    assert resets.sum() == 2
    changed = batch._replace(
        observations=np.where(resets[..., None], 7.0, batch.observations).astype(np.float32),
        actions=np.where(resets, 1 - batch.actions, batch.actions),
        rewards=np.where(resets, 99.0, batch.rewards).astype(np.float32),
    )
    # The row of a reset follows an end, so no λ-return reaches into it.
    expected, learned = learn(batch, ONLINE), learn(changed, ONLINE)
    assert (learned.vector == expected.vector).all()
    assert learned.td_loss == expected.td_loss
    nothing = learn(batch._replace(weights=np.zeros_like(batch.weights)), ONLINE)
    assert not nothing.vector.any()
    # The same change of a step that counts is seen.
    counted = batch._replace(rewards=np.where(resets, batch.rewards, 99.0).astype(np.float32))
    assert np.abs(learn(counted, ONLINE).vector - expected.vector).max() > 0.1
