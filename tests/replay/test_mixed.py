"""Minibatches of which a share is of others' transitions.

What is collected observes 1 and what others made -1.
"""

import numpy as np
import pytest

from ps_dqn.config.capacity import Item
from ps_dqn.replay.batch import Transitions
from ps_dqn.replay.mixed import Mixed
from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import Layout, Rows
from ps_dqn.replay.samplers import NothingToDrawError, Sampler, Uniform

ENVS, BATCH = 2, 16


def replay_of(value: float, sampler: Sampler | None = None, steps: int = 20) -> Replay:
    layout = Layout(ENVS, 50, (1,), np.dtype(np.float32), Item(1), gamma=0.9)
    replay = Replay(layout, sampler or Uniform(), np.random.default_rng(1), min_size=10)
    every = np.arange(ENVS)
    for time in range(steps):
        observations, zeros = np.full((ENVS, 1), value, np.float32), np.zeros(ENVS)
        there = np.ones(ENVS, np.bool_)
        replay.write(Rows(every, observations, every * 0 + time, zeros, zeros, there))
    return replay


def sample(memory: Mixed, size: int = BATCH) -> Transitions:
    batch = memory.sample(3, size)
    assert isinstance(batch, Transitions)
    return batch


@pytest.mark.parametrize(
    ("share", "shown"), [(0.0, 1), (0.01, 1), (0.25, 4), (0.5, 8), (0.99, BATCH - 1)]
)
def test_each_minibatch_has_its_share_and_some_of_both(share: float, shown: int) -> None:
    memory = Mixed(replay_of(1), replay_of(-1), share)
    for _ in range(2):
        memory.prepare(3, BATCH)
        batch = sample(memory)
        assert batch.observations.shape == (3, BATCH, 1)
        assert ((batch.observations < 0).sum(axis=(1, 2)) == shown).all()
        assert ((batch.observations < 0) == (batch.demonstrated == 1)).all()


def test_without_anything_collected_all_are_of_others() -> None:
    memory = Mixed(None, replay_of(-1), share=1.0)
    assert memory.is_warm
    assert (sample(memory).demonstrated == 1).all()
    assert (sample(memory, size=1).demonstrated == 1).all()


def test_learning_waits_for_what_is_collected() -> None:
    memory = Mixed(replay_of(1, steps=1), replay_of(-1), share=0.5)
    assert not memory.is_warm
    with pytest.raises(NothingToDrawError):
        sample(memory)
    assert Mixed(replay_of(1), replay_of(-1), share=0.5).is_warm


def test_each_kind_has_priorities_of_its_own() -> None:
    both = (replay_of(value, Prioritized(1.0, 0.0, 1e-6)) for value in (1, -1))
    memory = Mixed(*both, share=0.5)
    for _ in range(40):
        batch = sample(memory)
        wanted = np.where(batch.demonstrated[..., 0] == 1, 3, 7)
        memory.update_priorities(np.where(batch.actions == wanted, 9, 0).astype(np.float32))
    batch = sample(memory)
    assert set(batch.actions[batch.demonstrated[..., 0] == 1].tolist()) == {3}
    assert set(batch.actions[batch.demonstrated[..., 0] == 0].tolist()) == {7}


@pytest.mark.parametrize(("share", "beta"), [(0.25, 0.4), (0.5, 1.0)])
def test_weights_of_both_kinds_are_divided_by_one_number(share: float, beta: float) -> None:
    """By the largest of a minibatch: else a part whose errors differ much counts for less."""
    own, shown = (
        replay_of(value, Prioritized(1.0, beta, 0.0), steps) for value, steps in ((1, 40), (-1, 12))
    )
    memory = Mixed(own, shown, share)

    def error(batch: Transitions) -> np.ndarray:
        """Of its own 0.1 to 3.9, of others' 2, by when they were made."""
        of_own = 0.1 * np.maximum(batch.actions, 1)
        return np.where(batch.demonstrated[..., 0] == 1, 2.0, of_own).astype(np.float32)

    for _ in range(200):
        memory.update_priorities(error(sample(memory)))
    batch = sample(memory)
    errors, is_shown = error(batch), batch.demonstrated[..., 0] == 1
    of_own = [0.1 * max(time, 1) for time in range(39)] * ENVS
    # The mean error of a part over that of an item is 1 / (N P).
    weights = np.where(is_shown, 1.0, (np.mean(of_own) / errors) ** beta)
    assert batch.weights == pytest.approx(weights / weights.max(axis=1, keepdims=True), rel=1e-4)
    assert (batch.weights[is_shown] < 0.9).any()


def test_its_size_is_that_of_both() -> None:
    own, shown = replay_of(1), replay_of(-1)
    memory = Mixed(own, shown, share=0.5)
    assert memory.size == own.size + shown.size
    assert memory.nbytes == own.nbytes + shown.nbytes
