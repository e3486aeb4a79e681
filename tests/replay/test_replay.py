"""The replay against a slow reference that knows episodes, not rings.

Every stored observation carries a number of its own, so a sampled transition tells which row it
came from and every field of it can be compared.
"""

import numpy as np
import pytest
from support.episodes import (
    GAMMA,
    Episode,
    Streams,
    append,
    by_start,
    episode_replay,
    make,
    numbers,
    sample,
)

from ps_dqn.config.capacity import Item
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import TERMINATED, TRUNCATED, Layout, Rows
from ps_dqn.replay.samplers import Uniform


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize("num_envs", [1, 4])
def test_every_sample_equals_the_reference(n_step: int, num_envs: int) -> None:
    rows_per_env = 23
    replay, streams = make(num_envs, rows_per_env, n_step), Streams(num_envs, seed=n_step)
    checked = 0
    # The rings hold 23 rows each: the first rounds are before the wrap-around, most are after.
    for _ in range(12):
        streams.feed(replay, 11)
        eligible = streams.eligible(rows_per_env, n_step)
        if not eligible:
            continue
        drawn = sample(replay, 300)
        for i, number in enumerate(numbers(drawn)):
            assert number in eligible, "overwritten, a reset row, or too new"
            row = eligible[number]
            value, discount, after = row.episode.transition(row.position, n_step)
            assert drawn.observations[i].tolist() == [number, -number]
            assert drawn.actions[i] == row.action
            assert drawn.returns[i] == pytest.approx(value, abs=1e-5)
            assert drawn.discounts[i] == pytest.approx(discount, abs=1e-6)
            assert drawn.next_observations[i].tolist() == [after, -after]
            checked += 1
    assert checked > 2000
    # The rings did wrap.
    assert all(len(rows) > rows_per_env + n_step for rows in streams.written)


@pytest.mark.parametrize("n_step", [1, 3, 5])
def test_no_transition_joins_two_episodes(n_step: int) -> None:
    replay, streams = make(3, 40, n_step), Streams(3, seed=8, longest=3)
    streams.feed(replay, 150)
    episode_of = {row.number: row.episode.first for rows in streams.written for row in rows}
    drawn = sample(replay, 3000)
    for start, after in zip(numbers(drawn), drawn.next_observations[:, 0], strict=True):
        assert episode_of[start] == episode_of[int(after)]


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
def test_terminated_episode_is_not_bootstrapped(n_step: int) -> None:
    rewards = [1.0, 2.0, 4.0]
    replay, _ = episode_replay(TERMINATED, n_step, rewards)
    found = by_start(sample(replay, 500))
    # The last transition: one reward, discount 0, whatever n is.
    assert found[3] == (pytest.approx(4.0), 0.0, 4)
    # The first is cut by the end from n = 3 on; before, it bootstraps inside the episode.
    if n_step >= 3:
        assert found[1] == (pytest.approx(1 + 0.9 * 2 + 0.81 * 4), 0.0, 4)
    else:
        assert found[1][1:] == (pytest.approx(0.9**n_step), 1 + n_step)


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
def test_truncated_episode_is_bootstrapped_from_its_last_observation(n_step: int) -> None:
    replay, _ = episode_replay(TRUNCATED, n_step, [1.0, 2.0, 4.0])
    found = by_start(sample(replay, 500))
    # γ to the number of rewards in the return, not to n.
    assert found[3] == (pytest.approx(4.0), pytest.approx(0.9), 4)
    if n_step >= 2:
        assert found[2] == (pytest.approx(2 + 0.9 * 4), pytest.approx(0.81), 4)
    if n_step >= 3:
        assert found[1] == (pytest.approx(1 + 1.8 + 3.24), pytest.approx(0.729), 4)


def test_episode_longer_than_the_window_is_cut_by_n_alone() -> None:
    replay, _ = episode_replay(TERMINATED, 2, [1.0, 2.0, 4.0, 8.0, 16.0])
    assert by_start(sample(replay, 500))[2] == (
        pytest.approx(2 + 0.9 * 4), pytest.approx(0.81), 4
    )  # fmt: skip


@pytest.mark.parametrize("n_step", [1, 3])
def test_every_eligible_transition_is_drawn_and_nothing_else(n_step: int) -> None:
    replay, streams = make(3, 30, n_step), Streams(3, seed=5, longest=4)
    streams.feed(replay, 120)
    eligible = streams.eligible(30, n_step)
    resets = {row.number for rows in streams.written for row in rows if not row.is_transition}
    drawn = set(numbers(sample(replay, 20 * len(eligible))))
    assert len(eligible) > 50
    assert drawn == set(eligible)
    assert resets
    assert not drawn & resets


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
def test_newest_rows_wait_until_n_more_follow(n_step: int) -> None:
    replay = make(1, 100, n_step)
    rows = list(Episode(1, [0] * 20, [1.0] * 20, TERMINATED).rows())
    for count, row in enumerate(rows[:12], start=1):
        append(replay, np.array([0]), [row])
        assert replay.size == max(count - n_step, 0)
        if count > n_step:
            assert set(numbers(sample(replay, 300))) == set(range(1, count - n_step + 1))


def test_oldest_rows_make_place() -> None:
    replay = make(1, 10, 2)
    for row in list(Episode(1, [0] * 40, [1.0] * 40, TERMINATED).rows())[:35]:
        append(replay, np.array([0]), [row])
    # Rows 26..35 are left, of which the last two have not enough after them.
    assert set(numbers(sample(replay, 500))) == set(range(26, 34))
    assert replay.size == 8


def test_sampling_is_uniform() -> None:
    # Environments filled to different degrees, so that choosing an environment first and then a
    # row of it would be far from uniform.
    replay, streams = make(3, 40, 2, seed=3), Streams(3, seed=4)
    streams.feed(replay, 10)
    for _ in range(60):
        append(replay, np.array([1]), [streams.take(1)])
    eligible = streams.eligible(40, 2)
    per_env = [
        len([row for row in rows if row.number in eligible and row.is_transition])
        for rows in streams.written
    ]
    assert max(per_env) > 4 * min(per_env) > 0
    draws = 1000 * len(eligible)
    found, counts = np.unique(numbers(sample(replay, draws)), return_counts=True)
    assert set(found.tolist()) == set(eligible)
    statistic = float(((counts - 1000) ** 2 / 1000).sum())
    freedom = len(eligible) - 1
    # Mean `freedom`, standard deviation sqrt(2 · freedom): within four of them on both sides.
    assert abs(statistic - freedom) < 4 * (2 * freedom) ** 0.5


def test_draws_are_independent_of_each_other() -> None:
    replay, streams = make(2, 40, 1, seed=9), Streams(2, seed=4)
    streams.feed(replay, 100)
    first = numbers(sample(replay, 5000))
    ranks = {number: rank for rank, number in enumerate(sorted(set(first)))}
    values = np.array([ranks[number] for number in first], np.float64)
    # With replacement and in random order: neighbours are uncorrelated, repeats are common.
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.05
    assert len(ranks) < 100


def test_seed_decides_the_draws() -> None:
    def draws(seed: int) -> list[list[int]]:
        replay, streams = make(2, 40, 3, seed=seed), Streams(2, seed=4)
        streams.feed(replay, 60)
        return [numbers(sample(replay, 64)) for _ in range(3)]

    first, again, other = draws(1), draws(1), draws(2)
    assert first == again
    assert first != other
    assert first[0] != first[1], "each draw must be a new one"


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_nothing_to_sample_is_an_error(rows: int) -> None:
    replay = make(2, 10, 3)
    for row in list(Episode(1, [0] * 9, [1.0] * 9, TERMINATED).rows())[:rows]:
        append(replay, np.array([0]), [row])
    assert replay.size == 0
    with pytest.raises(ValueError, match="no complete transition"):
        replay.sample(1, 1)


def test_one_more_row_than_n_is_enough() -> None:
    replay = make(2, 10, 3)
    for row in list(Episode(1, [0] * 9, [1.0] * 9, TERMINATED).rows())[:4]:
        append(replay, np.array([1]), [row])
    assert numbers(sample(replay, 5)) == [1] * 5


def test_images_are_stored_and_sampled_as_bytes() -> None:
    layout = Layout(2, 50, (4, 3), np.dtype(np.uint8), Item(1), GAMMA)
    replay = Replay(layout, Uniform(), np.random.default_rng(0))
    # 50 rows for each of two environments: 12 bytes of image, 4 of action, 4 of reward, two flags.
    assert replay.nbytes == 100 * (12 + 4 + 4 + 1 + 1)
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) + 200
    for _ in range(2):
        zero = np.zeros(2)
        replay.write(Rows(np.arange(2), image, zero, zero, zero, np.ones(2, np.bool_)))
    drawn = sample(replay, 20)
    assert drawn.observations.dtype == np.uint8
    assert drawn.next_observations.dtype == np.uint8
    assert drawn.observations.shape == (20, 4, 3)
    assert {each.tobytes() for each in drawn.observations} == {each.tobytes() for each in image}


def test_dtypes_and_shapes_of_a_sample() -> None:
    replay, streams = make(2, 20, 2), Streams(2, seed=1)
    streams.feed(replay, 30)
    drawn = replay.sample(3, 7)
    numbers = [(3, 7)] * 3
    masks = [(3, 7, 0)] * 2
    observations, nobody = (3, 7, 2), (3, 7, 0)
    shapes = [observations, *numbers, observations, *masks, (3, 7), nobody]
    assert [each.shape for each in drawn] == shapes
    names = "float32 int32 float32 float32 float32 bool bool float32 float32"
    assert [each.dtype.name for each in drawn] == names.split()
    assert (drawn.weights == 1).all()


def test_minibatches_of_a_sample_are_draws_of_their_own() -> None:
    replay, streams = make(2, 40, 1), Streams(2, seed=1)
    streams.feed(replay, 80)
    drawn = replay.sample(3, 20).observations[..., 0].tolist()
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


def test_a_sample_is_a_copy() -> None:
    replay, streams = make(1, 8, 1), Streams(1, seed=1)
    streams.feed(replay, 8)
    drawn = sample(replay, 16)
    kept = [each.copy() for each in drawn]
    # TensorFlow may still read a minibatch while the ring is written over.
    streams.feed(replay, 50)
    assert all((now == then).all() for now, then in zip(drawn, kept, strict=True))


def test_size_counts_rows_that_have_n_after_them() -> None:
    replay = make(1, 50, 1)
    for number in range(6):
        # Episodes of one step: every second row is an episode's last observation. It counts in
        # the size, which so depends on nothing but how often the environments were stepped.
        for row in Episode(10 * number + 1, [0], [1.0], TERMINATED).rows():
            append(replay, np.array([0]), [row])
    assert replay.size == 12 - 1
    assert set(numbers(sample(replay, 500))) == {1, 11, 21, 31, 41, 51}
