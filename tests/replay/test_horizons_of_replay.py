"""Returns whose length and discount change between one draw and the next, against a loop."""

import numpy as np
import pytest
from support.episodes import Row, Streams, make, numbers, sample

from ps_dqn.config.capacity import Item
from ps_dqn.replay.batch import Sequences
from ps_dqn.replay.mixed import Mixed
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import CONTINUES, TERMINATED, Layout, Rows
from ps_dqn.replay.samplers import Uniform

LONGEST, ROWS = 5, 60
HORIZONS = [(5, 0.9), (1, 0.5), (3, 0.97), (2, 1.0), (4, 0.0), (5, 0.9)]


def looped(row: Row, n_step: int, gamma: float) -> tuple[float, float, int]:
    """Return, discount and number of the observation that is bootstrapped from."""
    episode, value = row.episode, 0.0
    for k in range(n_step):
        value += gamma**k * episode.rewards[row.position + k]
        if row.position + k == len(episode.rewards) - 1:
            discount = 0.0 if episode.end == TERMINATED else gamma ** (k + 1)
            return value, discount, row.number + k + 1
    return value, gamma**n_step, row.number + n_step


@pytest.fixture(scope="module")
def fed() -> tuple[Replay, dict[int, Row]]:
    replay, streams = make(2, ROWS, LONGEST), Streams(2, seed=3)
    streams.feed(replay, 200)
    return replay, streams.eligible(ROWS, LONGEST)


@pytest.mark.parametrize(("n_step", "gamma"), HORIZONS)
def test_transitions_are_of_the_present_length(
    fed: tuple[Replay, dict[int, Row]], n_step: int, gamma: float
) -> None:
    replay, eligible = fed
    replay.look_ahead(n_step, gamma)
    drawn = sample(replay, 300)
    lengths = set()
    for i, number in enumerate(numbers(drawn)):
        value, discount, after = looped(eligible[number], n_step, gamma)
        assert drawn.returns[i] == pytest.approx(value, abs=1e-5)
        assert drawn.discounts[i] == pytest.approx(discount, abs=1e-6)
        assert drawn.next_observations[i].tolist() == [after, -after]
        lengths.add(after - number)
    assert max(lengths) == n_step


def test_what_is_prepared_is_as_it_was_prepared(fed: tuple[Replay, dict[int, Row]]) -> None:
    replay, eligible = fed
    replay.look_ahead(1, 0.5)
    replay.prepare(1, 50)
    replay.look_ahead(4, 0.9)
    for horizon in ((1, 0.5), (4, 0.9)):
        drawn = sample(replay, 50)
        wanted = [looped(eligible[number], *horizon)[0] for number in numbers(drawn)]
        np.testing.assert_allclose(drawn.returns, wanted, atol=1e-5)


def test_demonstrations_look_as_far() -> None:
    both, streams = [make(2, ROWS, LONGEST, seed) for seed in (1, 2)], Streams(2, seed=4)
    for replay in both:
        streams.feed(replay, 150)
    eligible = streams.eligible(10**6, 0)
    memory = Mixed(*both, share=0.5)
    memory.look_ahead(2, 0.5)
    drawn = memory.sample(1, 100)
    assert 0 < drawn.demonstrated.mean() < 1
    for i, number in enumerate(drawn.observations[0, :, 0].astype(int)):
        value, discount, _ = looped(eligible[number], 2, 0.5)
        assert (drawn.returns[0, i], drawn.discounts[0, i]) == pytest.approx(
            (value, discount), abs=1e-6
        )


@pytest.mark.parametrize(("n_step", "gamma"), HORIZONS)
def test_steps_of_sequences_are_of_the_present_length(n_step: int, gamma: float) -> None:
    """One endless episode, whose step i pays i: a step's return says where it begins."""
    burn_in, trained = 2, 4
    item = Item(LONGEST, burn_in, trained, 3)
    layout = Layout(1, 90, (1,), np.dtype(np.float32), item, 0.99, state_size=1)
    replay = Replay(layout, Uniform(), np.random.default_rng(0))
    zero = np.zeros(1, np.int64)
    for time in range(60):
        seen, state = np.full((1, 1), time, np.float32), np.zeros((1, 1), np.float32)
        there = np.ones(1, np.bool_)
        replay.write(Rows(zero, seen, zero, zero + time, zero + CONTINUES, there, state))
    replay.look_ahead(n_step, gamma)
    drawn = replay.sample(1, 30)
    assert isinstance(drawn, Sequences)
    for i in range(30):
        for t in range(trained):
            time = int(drawn.observations[0, i, burn_in + t, 0])
            value = sum(gamma**k * (time + k) for k in range(n_step))
            assert drawn.returns[0, i, t] == pytest.approx(value, rel=1e-5)
            assert drawn.discounts[0, i, t] == pytest.approx(gamma**n_step, rel=1e-5)
            assert drawn.bootstraps[0, i, t] == burn_in + t + n_step
