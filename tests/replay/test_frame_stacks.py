"""Stacks rebuilt from single frames against stacks that were kept whole.

Every frame that is not padding has a number of its own, so a sampled stack tells by its newest
frame which step it is from.
"""

import dataclasses

import numpy as np
import pytest

from ps_dqn.config.capacity import Item
from ps_dqn.errors import UsageError
from ps_dqn.replay.batch import Transitions
from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED, Layout, Rows
from ps_dqn.replay.samplers import Sampler, Uniform

GAMMA = 0.9
LARGE = 200_000  # bytes for compressed frames: more than is needed


def picture(number: int) -> np.ndarray:
    """A frame, uint8 [2, 3], that shows a number."""
    return np.array([[number // 256, number % 256, 7], [number % 256, 9, 8]], np.uint8)


def number_of(stack: np.ndarray) -> int:
    return int(stack[-1, 0, 0]) * 256 + int(stack[-1, 0, 1])


@dataclasses.dataclass
class Row:
    """A row as the ring should have it; without a stack it is an older frame of a first stack."""

    stack: np.ndarray | None = None  # [k, 2, 3]
    action: int = 0
    reward: float = 1e6
    end: int = CONTINUES
    is_transition: bool = False


class Players:
    """Environments that stack frames, and what they put into a replay."""

    def __init__(self, replay: Replay, num_envs: int, stack: int, same_step: bool, seed: int):
        self.replay = replay
        self.rows: list[list[Row]] = [[] for _ in range(num_envs)]
        self._stack = stack
        self._same_step = same_step  # as environments reset: see gymnasium.vector.AutoresetMode
        self._rng = np.random.default_rng(seed)
        self._frames = 0
        self._left = [0] * num_envs  # steps of the present episode
        self._now = [self._begin(env) for env in range(num_envs)]
        self._is_over = [False] * num_envs

    def play(self, steps: int) -> None:
        for _ in range(steps):
            rows = [self._act(env) for env in range(len(self.rows))]
            self._append(list(range(len(rows))), rows)
            if self._same_step:
                over = [env for env, is_over in enumerate(self._is_over) if is_over]
                if over:
                    self._append(over, [self._act(env) for env in over])

    def _act(self, env: int) -> Row:
        """A step, or the last observation with which nothing is done."""
        action, reward = int(self._rng.integers(5)), float(self._rng.normal())
        before = self._now[env]
        if self._is_over[env]:
            self._is_over[env] = False
            self._now[env] = self._begin(env)
            return Row(before, action)
        self._left[env] -= 1
        self._is_over[env] = self._left[env] == 0
        end = int(self._rng.choice([TRUNCATED, TERMINATED])) if self._is_over[env] else CONTINUES
        self._now[env] = np.concatenate([before[1:], [self._frame()]])
        return Row(before, action, reward, end, True)

    def _begin(self, env: int) -> np.ndarray:
        """A first stack: padded with zeros, with repeats or with frames of steps before it."""
        self._left[env] = int(self._rng.integers(1, 9))
        style, frame = self._rng.integers(3), self._frame()
        older = [np.zeros_like(frame), frame, None][style]
        frames = [self._frame() if older is None else older for _ in range(self._stack - 1)]
        return np.stack([*frames, self._frame() if older is None else frame])

    def _frame(self) -> np.ndarray:
        self._frames += 1
        return picture(self._frames)

    def _append(self, envs: list[int], rows: list[Row]) -> None:
        for env, row in zip(envs, rows, strict=True):
            written = self.rows[env]
            if not written or not written[-1].is_transition:
                written += [Row() for _ in range(self._stack - 1)]
            written.append(row)
        self.replay.write(
            Rows(
                np.array(envs),
                np.array([row.stack for row in rows]),
                np.array([row.action for row in rows]),
                np.array([row.reward for row in rows]),
                np.array([row.end for row in rows]),
                np.array([row.is_transition for row in rows]),
            )
        )

    def eligible(self, per_env: int, n_step: int) -> dict[int, list[Row]]:
        """Rows from which a transition may start, each with its successors, by its number."""
        found = {}
        for rows in self.rows:
            oldest = max(len(rows) - per_env, 0)
            # The older frames of the oldest rows are gone.
            for i in range(oldest + self._stack - 1, len(rows) - n_step):
                stack = rows[i].stack
                if rows[i].is_transition and stack is not None:
                    found[number_of(stack)] = rows[i : i + n_step + 1]
        return found


def expected(rows: list[Row], n_step: int) -> tuple[float, float, np.ndarray | None]:
    """Return, discount and stack of the bootstrap state."""
    value = 0.0
    for k in range(n_step):
        value += GAMMA**k * rows[k].reward
        if rows[k].end != CONTINUES:
            discount = 0.0 if rows[k].end == TERMINATED else GAMMA ** (k + 1)
            return value, discount, rows[k + 1].stack
    return value, GAMMA**n_step, rows[n_step].stack


def make(
    num_envs: int,
    rows: int,
    stack: int,
    n_step: int = 1,
    arena_bytes: int = 0,
    sampler: Sampler | None = None,
) -> Replay:
    layout = Layout(
        num_envs,
        rows,
        (stack, 2, 3),
        np.dtype(np.uint8),
        Item(n_step),
        GAMMA,
        frame_stack=stack,
        compression="lz4" if arena_bytes else "none",
        arena_bytes=arena_bytes,
    )
    return Replay(layout, sampler or Uniform(), np.random.default_rng(5))


def check(drawn: Transitions, eligible: dict[int, list[Row]], n_step: int) -> set[int]:
    """Compares all fields; returns the numbers that were drawn."""
    numbers = [number_of(stack) for stack in drawn.observations[0]]
    assert set(numbers) <= eligible.keys()
    rows = [eligible[number] for number in numbers]
    values, discounts, after = zip(*(expected(each, n_step) for each in rows), strict=True)
    assert (drawn.observations[0] == np.array([each[0].stack for each in rows])).all()
    assert (drawn.next_observations[0] == np.array(after)).all()
    assert drawn.actions[0].tolist() == [each[0].action for each in rows]
    assert drawn.returns[0] == pytest.approx(np.array(values), abs=1e-5)
    assert drawn.discounts[0] == pytest.approx(np.array(discounts), abs=1e-6)
    return set(numbers)


@pytest.mark.parametrize("arena_bytes", [0, LARGE])
@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize(("stack", "n_step"), [(2, 1), (4, 1), (4, 3), (3, 5)])
def test_every_stack_is_the_one_that_was_seen(
    stack: int, n_step: int, same_step: bool, arena_bytes: int
) -> None:
    replay = make(3, 37, stack, n_step, arena_bytes)
    players = Players(replay, 3, stack, same_step, seed=stack)
    # Every few steps, so that the seam of each ring is met in all positions; 37 is a prime number.
    for _ in range(60):
        players.play(4)
        eligible = players.eligible(37, n_step)
        if eligible:
            drawn = replay.sample(1, 12 * len(eligible))
            assert isinstance(drawn, Transitions)
            check(drawn, eligible, n_step)
    assert all(len(rows) > 4 * 37 for rows in players.rows)


@pytest.mark.parametrize("sampler", [Uniform(), Prioritized(0.6, 0.4, 0.01)])
@pytest.mark.parametrize("steps", [3, 20, 150])
def test_all_whole_stacks_are_drawn_and_no_others(steps: int, sampler: Sampler) -> None:
    replay = make(2, 41, 4, 2, sampler=sampler)
    players = Players(replay, 2, 4, same_step=False, seed=1)
    players.play(steps)
    eligible = players.eligible(41, 2)
    drawn = replay.sample(1, 3000)
    assert isinstance(drawn, Transitions)
    assert check(drawn, eligible, 2) == eligible.keys()


def test_a_small_arena_forgets_old_rows_and_keeps_the_others_whole() -> None:
    replay = make(2, 60, 3, 2, arena_bytes=500)
    players = Players(replay, 2, 3, same_step=True, seed=2)
    for _ in range(40):
        players.play(5)
        drawn = replay.sample(1, 1000)
        assert isinstance(drawn, Transitions)
        eligible = players.eligible(60, 2)
        found = check(drawn, eligible, 2)
    # Fewer than the rings of rows have, and the newest of them.
    assert 5 < len(found) < 0.7 * len(eligible)
    for rows in players.rows:
        in_ring = [number_of(r.stack) for r in rows[-60:-2] if r.is_transition]
        kept = [number in found for number in in_ring]
        assert kept == sorted(kept)
        assert kept[-1]


def test_each_frame_is_stored_once() -> None:
    replay = make(2, 50, 4)
    # A frame has 6 bytes, a row's action, reward, end and flags 10; besides, each environment has
    # the three newest frames at hand.
    assert replay.nbytes == 2 * 50 * (6 + 10) + 2 * 3 * 6


def stack_of(*numbers: int) -> np.ndarray:
    return np.array([[picture(number) for number in numbers]])


def put(replay: Replay, env: int, stack: np.ndarray, is_transition: bool = True) -> None:
    zero = np.zeros(1, np.int32)
    replay.write(Rows(np.array([env]), stack, zero, zero, zero, np.array([is_transition])))


def test_size_counts_rows_with_a_whole_stack_and_n_after_them() -> None:
    replay = make(1, 10, 4, 2)
    sizes = []
    for i in range(1, 9):
        put(replay, 0, stack_of(i, i + 1, i + 2, i + 3))
        sizes.append(replay.size)
    # Three rows for the older frames and then one for each; at 10 the ring is full, which leaves
    # 10 without the first three and the last two.
    assert sizes == [0, 0, 1, 2, 3, 4, 5, 5]


@pytest.mark.parametrize("wrong", [(2, 3, 5), (1, 2, 3), (2, 9, 4), (5, 6, 7)])
def test_observations_that_do_not_slide_are_refused(wrong: tuple[int, int, int]) -> None:
    replay = make(2, 20, 3)
    put(replay, 0, stack_of(5, 6, 7))
    put(replay, 1, stack_of(1, 2, 3))
    put(replay, 1, stack_of(2, 3, 4))
    if wrong[:2] == (2, 3):
        put(replay, 1, stack_of(3, 4, 5))  # what the next one is compared with has moved on
    with pytest.raises(UsageError, match=r"^--frame_stack=3: in environment 1 .*sliding"):
        put(replay, 1, stack_of(*wrong))


def test_a_new_episode_need_not_continue_the_last_one() -> None:
    replay = make(1, 20, 3)
    put(replay, 0, stack_of(1, 2, 3))
    put(replay, 0, stack_of(2, 3, 4), is_transition=False)
    put(replay, 0, stack_of(9, 9, 9))
    put(replay, 0, stack_of(9, 9, 10))
    drawn = replay.sample(1, 50)
    assert {number_of(stack) for stack in drawn.observations[0]} == {3, 9}


@pytest.mark.parametrize("shape", [(3, 2, 3), (), (2, 4)])
def test_observations_of_another_number_of_frames_are_refused(shape: tuple[int, ...]) -> None:
    layout = Layout(1, 20, shape, np.dtype(np.uint8), Item(1), GAMMA, frame_stack=4)
    with pytest.raises(UsageError, match=r"^--frame_stack=4: observations have the shape \("):
        Replay(layout, Uniform(), np.random.default_rng(0))


def test_vectors_are_stacked_as_well() -> None:
    layout = Layout(1, 20, (3, 2), np.dtype(np.float32), Item(1), GAMMA, frame_stack=3)
    replay = Replay(layout, Uniform(), np.random.default_rng(0))
    frames = np.arange(12, dtype=np.float32).reshape(6, 2) / 7
    for i in range(3):
        put(replay, 0, frames[None, i : i + 3])
    drawn = replay.sample(1, 40)
    assert isinstance(drawn, Transitions)
    for now, after in zip(drawn.observations[0], drawn.next_observations[0], strict=True):
        first = round(float(now[0, 0]) * 7 / 2)
        assert (now == frames[first : first + 3]).all()
        assert (after == frames[first + 1 : first + 4]).all()
