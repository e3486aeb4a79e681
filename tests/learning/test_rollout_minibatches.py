"""Rollouts become losses: λ-returns of the online network, in the order of the rollout."""

from typing import Any

import numpy as np
import pytest
from support.four_numbers import (
    ONLINE,
    changed,
    close,
    learn,
    slopes,
    squared_source,
)

from ps_dqn.replay.batch import Rollout

STEPS, ENVIRONMENTS = 3, 2
RESET = (1, 1)  # the second minibatch's second step
# Greedy values are looked at one step ahead, so that the reference is short.
OPTIONS = {"replay": "rollout", "target_update_period": 0, "n_step": 1, "trace_lambda": 0.0}


def random_rollout(rng: np.random.Generator) -> Rollout:
    """Three steps of two environments, in two minibatches of three; step 1 of one is a reset."""
    shape = (STEPS, ENVIRONMENTS)
    weights = np.ones(shape, np.float32)
    weights[RESET] = 0
    return Rollout(
        rng.normal(size=(*shape, 1)).astype(np.float32),
        rng.integers(2, size=shape).astype(np.int32),
        rng.normal(size=shape).astype(np.float32),
        np.full(shape, 0.9, np.float32),
        rng.normal(size=(*shape, 1)).astype(np.float32),
        np.ones((*shape, 0), np.bool_),
        np.ones(shape, np.float32),
        weights,
        np.zeros(shape, np.bool_),
        np.zeros((ENVIRONMENTS, 0), np.float32),
        np.ones((*shape, 0), np.bool_),
        np.zeros((*shape, 0), np.float32),
        np.array([[5, 2, 0], [1, 3, 4]], np.int32),
    )


def source() -> Any:
    return squared_source(**OPTIONS | {"batch_size": 3})


@pytest.mark.parametrize("index", [0, 1])
def test_rollouts_against_a_reference(index: int) -> None:
    rollout = random_rollout(np.random.default_rng(4))
    found, gradient = learn(source(), rollout, index, target=ONLINE)
    picked = [divmod(each, ENVIRONMENTS) for each in rollout.order[index]]
    next_values = [
        (ONLINE[1] * rollout.next_observations[at][0] * ONLINE[2:]).max() for at in picked
    ]
    targets = [
        rollout.rewards[at] + 0.9 * value for at, value in zip(picked, next_values, strict=True)
    ]

    def values(w: np.ndarray) -> list[float]:
        return [w[1] * rollout.observations[at][0] * w[2 + rollout.actions[at]] for at in picked]

    def loss(w: np.ndarray) -> float:
        weights = np.array([rollout.weights[at] for at in picked])
        return float(np.mean(weights * (np.array(targets) - values(w)) ** 2 / 2))

    assert float(found.loss) == close(loss(ONLINE))
    assert found.errors.numpy() == close(np.abs(np.array(targets) - values(ONLINE)))
    assert float(found.q_value) == close(np.mean(values(ONLINE)))
    assert gradient == close(slopes(loss, ONLINE))


def test_resets_are_not_trained_on() -> None:
    rollout = random_rollout(np.random.default_rng(4))
    for at, is_trained in ((RESET, False), ((2, 0), True)):
        found, gradient = learn(source(), rollout, 1)
        other = changed(rollout, "rewards", at, 50.0)
        other = changed(other, "actions", at, 1 - rollout.actions[at])
        other_found, other_gradient = learn(source(), other, 1)
        assert (float(other_found.loss) != float(found.loss)) == is_trained
        assert (other_gradient != gradient).any() == is_trained
