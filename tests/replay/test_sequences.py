"""Sampled sequences against a slow reference that walks over rows one by one.

Every frame has a number of its own, so a sequence tells by its first row where it begins.
"""

import dataclasses

import numpy as np
import pytest

from ps_dqn.config.capacity import Item
from ps_dqn.replay.batch import Sequences
from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED, Layout, Rows
from ps_dqn.replay.samplers import Sampler, Uniform

GAMMA = 0.9
STATE_SIZE = 3


@dataclasses.dataclass(frozen=True)
class Row:
    frame: int
    action: int = 0
    reward: float = 0.0
    end: int = CONTINUES
    is_transition: bool = False
    state: float = 0.0  # every number of it


class Players:
    """Environments of random episodes that append to a replay, and all rows it should have."""

    def __init__(self, replay: Replay, layout: Layout, seed: int, longest: int = 9):
        self.rows: list[list[Row]] = [[] for _ in range(layout.num_envs)]
        self._replay, self._layout = replay, layout
        self._rng = np.random.default_rng(seed)
        self._longest = longest
        self._frames = 0
        self._pending: list[list[Row]] = [[] for _ in self.rows]

    def play(self, ticks: int) -> None:
        """Lets a random part of the environments append a row, `ticks` times."""
        for _ in range(ticks):
            size = self._rng.integers(1, len(self.rows) + 1)
            envs = self._rng.choice(len(self.rows), size, replace=False)
            rows = [self._next(env) for env in envs]
            self._replay.write(
                Rows(
                    envs,
                    np.array([self.observation(env, -1) for env in envs], np.float32),
                    np.array([row.action for row in rows]),
                    np.array([row.reward for row in rows]),
                    np.array([row.end for row in rows]),
                    np.array([row.is_transition for row in rows]),
                    np.array([[row.state] * STATE_SIZE for row in rows], np.float32),
                )
            )

    def observation(self, env: int, position: int) -> np.ndarray:
        """Frames up to a row's, [k, 1], or [1] of one that is not stacked."""
        rows, stack = self.rows[env], self._layout.frame_stack
        end = position % len(rows) + 1
        frames = np.array([[row.frame] for row in rows[end - stack : end]])
        return frames if stack > 1 else frames[0]

    def _next(self, env: int) -> Row:
        if not self._pending[env]:
            # Frames that are older than the episode's first have rows too.
            self.rows[env] += [Row(self._frame()) for _ in range(self._layout.frame_stack - 1)]
            self._pending[env] = self._episode()
        row = self._pending[env].pop(0)
        self.rows[env].append(row)
        return row

    def _episode(self) -> list[Row]:
        rng, length = self._rng, int(self._rng.integers(1, self._longest + 1))
        ends = [CONTINUES] * (length - 1) + [int(rng.choice([TRUNCATED, TERMINATED]))]
        rows = []
        for end in ends:
            action, reward = int(rng.integers(5)), float(rng.normal())
            rows.append(Row(self._frame(), action, reward, end, True, float(rng.normal())))
        # Whatever is stored with the last observation must not matter.
        return [*rows, Row(self._frame(), 77, np.inf, CONTINUES, False, float(rng.normal()))]

    def _frame(self) -> int:
        self._frames += 1
        return self._frames

    def eligible(self) -> dict[int, tuple[int, int]]:
        """Environment and position of each sequence there is, by its first frame's number."""
        layout, item, found = self._layout, self._layout.item, {}
        per_env = -(-layout.rows // item.period) * item.period
        length = item.burn_in + item.sequence_length + item.n_step
        for env, rows in enumerate(self.rows):
            first = max(len(rows) - per_env, 0) + layout.frame_stack - 1
            for p in range(first, len(rows) - length + 1):
                begin = p + item.burn_in
                trained = rows[begin : begin + item.sequence_length]
                if p % item.period == 0 and any(row.is_transition for row in trained):
                    found[rows[p].frame] = env, p
        return found

    def bootstrap(self, env: int, position: int) -> tuple[float, float, int]:
        """Return, discount and length of the transition at a position."""
        value = 0.0
        for k in range(self._layout.item.n_step):
            row = self.rows[env][position + k]
            assert row.is_transition
            value += GAMMA**k * row.reward
            if row.end != CONTINUES:
                return value, 0.0 if row.end == TERMINATED else GAMMA ** (k + 1), k + 1
        return value, GAMMA**self._layout.item.n_step, self._layout.item.n_step


def make(
    layout: Layout, sampler: Sampler | None = None, seed: int = 0, longest: int = 9
) -> tuple[Replay, Players]:
    replay = Replay(layout, sampler or Uniform(), np.random.default_rng(seed))
    return replay, Players(replay, layout, seed, longest)


def layout_of(
    burn_in: int,
    length: int,
    period: int,
    n_step: int = 2,
    *,
    rows: int = 61,
    stack: int = 1,
    num_envs: int = 2,
    state_size: int = STATE_SIZE,
) -> Layout:
    return Layout(
        num_envs,
        rows,
        (stack, 1) if stack > 1 else (1,),
        np.dtype(np.float32),
        Item(n_step, burn_in, length, period),
        GAMMA,
        frame_stack=stack,
        state_size=state_size,
    )


def sample(replay: Replay, count: int) -> Sequences:
    """One minibatch, its arrays [B, …]."""
    drawn = replay.sample(1, count)
    assert isinstance(drawn, Sequences)
    return Sequences(*(array[0] for array in drawn))


def first_frames(drawn: Sequences) -> list[int]:
    return [int(each) for each in drawn.observations[:, 0].reshape(len(drawn.states), -1)[:, -1]]


def check(drawn: Sequences, i: int, players: Players, env: int, first: int, layout: Layout) -> None:
    """Compares every field of sequence i with the rows from a position on."""
    rows = players.rows[env]
    for step in range(drawn.observations.shape[1]):
        expected = players.observation(env, first + step)
        assert (drawn.observations[i, step] == expected).all()
        begins = first + step == 0 or not rows[first + step - 1].is_transition
        assert drawn.starts[i, step] == begins
        row, nothing = rows[first + step], (0, 0.0)
        done = (row.action, pytest.approx(row.reward)) if row.is_transition else nothing
        assert (drawn.actions[i, step], drawn.rewards[i, step]) == done
    assert drawn.states[i] == pytest.approx([rows[first].state] * STATE_SIZE)
    for t in range(layout.item.sequence_length):
        step = layout.item.burn_in + t
        row = rows[first + step]
        assert drawn.weights[i, t] == row.is_transition
        if row.is_transition:
            value, discount, length = players.bootstrap(env, first + step)
            assert drawn.returns[i, t] == pytest.approx(value, abs=1e-5)
            assert drawn.discounts[i, t] == pytest.approx(discount, abs=1e-6)
            assert drawn.bootstraps[i, t] == step + length
        else:
            # Times a weight of 0, these must be 0, which what was stored with the row need not be.
            assert drawn.returns[i, t] == drawn.discounts[i, t] == 0
            assert drawn.bootstraps[i, t] == step


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize(
    ("burn_in", "length", "period", "n_step"),
    [(0, 1, 1, 1), (4, 6, 5, 3), (2, 8, 4, 1), (3, 2, 7, 5), (0, 10, 10, 2)],
)
def test_every_sequence_equals_the_reference(
    burn_in: int, length: int, period: int, n_step: int, stack: int
) -> None:
    layout = layout_of(burn_in, length, period, n_step, stack=stack)
    replay, players = make(layout, seed=burn_in + period)
    checked = 0
    for _ in range(25):
        players.play(13)
        eligible = players.eligible()
        if not eligible:
            continue
        drawn = sample(replay, 20)
        for i, frame in enumerate(first_frames(drawn)):
            assert frame in eligible
            check(drawn, i, players, *eligible[frame], layout)
            checked += 1
    assert checked > 350
    assert all(len(rows) > 3 * layout.rows for rows in players.rows), "the rings did wrap"


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("ticks", [20, 61, 300])
def test_every_complete_sequence_is_drawn_and_no_other(ticks: int, stack: int) -> None:
    layout = layout_of(2, 4, 3, stack=stack)
    for seed in range(6):
        replay, players = make(layout, seed=seed, longest=3)
        players.play(ticks)
        eligible = players.eligible()
        assert set(first_frames(sample(replay, 60 * len(eligible)))) == eligible.keys()
        # The size also counts those without anything to train on.
        assert replay.size >= len(eligible)


def test_rows_that_are_all_no_transition_make_no_sequence() -> None:
    # One trained row: every episode's last observation would be a sequence of nothing.
    layout = layout_of(0, 1, 1, 1)
    replay, players = make(layout, longest=1)
    players.play(200)
    drawn = sample(replay, 500)
    assert (drawn.weights == 1).all()
    assert replay.size == 2 * (61 - 1)
    assert set(first_frames(drawn)) == players.eligible().keys()


def test_rings_are_rounded_up_to_whole_periods() -> None:
    layout = layout_of(2, 4, 10, rows=41, state_size=5)
    replay, _ = make(layout)
    # 50 rows: an observation of 4 bytes, 10 of action, reward, end and flags; 5 states.
    assert replay.nbytes == 2 * (50 * (4 + 10) + 5 * 5 * 4)


def test_size_counts_complete_sequences() -> None:
    layout = layout_of(1, 3, 2, 2, rows=12, num_envs=1)
    replay, players = make(layout)
    sizes = []
    for _ in range(20):
        players.play(1)
        sizes.append(replay.size)
    # Six rows each, from rows 0, 2, 4, …; of 12 rows the last five begin none. Each sequence counts
    # as the two rows to the next one.
    assert sizes == [0] * 5 + [2, 2, 4, 4, 6, 6] + [8, 6, 8, 6, 8, 6, 8, 6, 8]


def test_shapes_and_dtypes() -> None:
    layout = layout_of(2, 4, 3, 5, stack=2)
    replay, players = make(layout)
    players.play(150)
    drawn = replay.sample(3, 7)
    every, trained = [(3, 7, 11)] * 2, [(3, 7, 4)] * 4
    shapes = [(3, 7, 11, 2, 1), (3, 7, 11), (3, 7, 3), (3, 7, 11, 0), *every, *trained]
    assert [each.shape for each in drawn] == shapes
    names = "float32 bool float32 bool int32 float32 float32 float32 int32 float32"
    assert [each.dtype.name for each in drawn] == names.split()


def test_without_a_recurrent_state_states_are_empty() -> None:
    layout = dataclasses.replace(layout_of(0, 4, 2), state_size=0)
    replay = Replay(layout, Uniform(), np.random.default_rng(0))
    zero = np.zeros(2)
    for _ in range(20):
        replay.write(Rows(np.arange(2), np.zeros((2, 1)), zero, zero, zero, np.ones(2, np.bool_)))
    assert sample(replay, 5).states.shape == (5, 0)


def test_prioritized_sequences_have_one_weight_for_their_transitions() -> None:
    layout = layout_of(2, 4, 3)
    replay, players = make(layout, Prioritized(1.0, 1.0, 1e-6))
    players.play(100)
    drawn = sample(replay, 400)
    frames = first_frames(drawn)
    errors = {frame: 1 + rank for rank, frame in enumerate(sorted(set(frames)))}
    replay.update_priorities(np.array([[errors[frame] for frame in frames]], np.float32))
    drawn = sample(replay, 400)
    frames = first_frames(drawn)
    assert len(set(frames)) > 20
    smallest = min(errors[frame] for frame in frames)
    eligible = players.eligible()
    for frame, got in zip(frames, drawn.weights, strict=True):
        env, first = eligible[frame]
        rows = players.rows[env][first + 2 : first + 6]
        # β = 1: the weight is min p / p.
        expected = [smallest / errors[frame] * row.is_transition for row in rows]
        assert got == pytest.approx(expected, rel=1e-5)
    # A sequence is drawn in proportion to its priority: the upper half three times as often.
    ranks = np.array([errors[frame] for frame in frames])
    assert 2.5 < (ranks > len(errors) / 2).sum() / (ranks <= len(errors) / 2).sum() < 3.5
