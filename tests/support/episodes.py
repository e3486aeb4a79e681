"""Episodes whose every observation has a number of its own, and a replay that is fed with them."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from ps_dqn.config.capacity import Item
from ps_dqn.replay.batch import Transitions
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED, Layout, Rows
from ps_dqn.replay.samplers import Uniform

GAMMA = 0.9


@dataclasses.dataclass(frozen=True)
class Row:
    """What is appended for one environment, and the episode it is part of."""

    number: int  # the observation
    action: int
    reward: float
    end: int
    is_transition: bool
    episode: "Episode"
    position: int  # in the episode


@dataclasses.dataclass(frozen=True)
class Episode:
    """Observations numbered `first`, `first + 1`, …: one more than there are rewards."""

    first: int
    actions: list[int]
    rewards: list[float]
    end: int

    def rows(self) -> Iterator[Row]:
        last = len(self.rewards)
        for i in range(last):
            end = self.end if i == last - 1 else CONTINUES
            yield Row(self.first + i, self.actions[i], self.rewards[i], end, True, self, i)
        # A reset step ignores its action, so whatever is stored with it must not matter.
        yield Row(self.first + last, 77, 1e6, CONTINUES, False, self, last)

    def transition(self, start: int, n_step: int) -> tuple[float, float, int]:
        """Return, discount and number of the next observation."""
        length = min(n_step, len(self.rewards) - start)
        value = sum(GAMMA**k * self.rewards[start + k] for k in range(length))
        at_end = start + length == len(self.rewards)
        discount = 0.0 if at_end and self.end == TERMINATED else GAMMA**length
        return value, discount, self.first + start + length


class Streams:
    """Endless random episodes of several environments, and all rows handed out so far."""

    def __init__(self, num_envs: int, seed: int, longest: int = 7):
        self._rng = np.random.default_rng(seed)
        self._longest = longest
        self._next_number = 1
        self._pending: list[list[Row]] = [[] for _ in range(num_envs)]
        self.written: list[list[Row]] = [[] for _ in range(num_envs)]

    def take(self, env: int) -> Row:
        if not self._pending[env]:
            self._pending[env] = list(self._episode().rows())
        row = self._pending[env].pop(0)
        self.written[env].append(row)
        return row

    def feed(self, replay: Replay, ticks: int) -> None:
        """Appends a row to a random non-empty subset of the environments, `ticks` times."""
        everyone = np.arange(len(self.written))
        for _ in range(ticks):
            size = self._rng.integers(1, len(everyone) + 1)
            envs = np.sort(self._rng.choice(everyone, size, replace=False))
            append(replay, envs, [self.take(env) for env in envs])

    def eligible(self, rows_per_env: int, n_step: int) -> dict[int, Row]:
        """Rows that may start a transition, by the number of their observation."""
        found = {}
        for rows in self.written:
            kept = rows[-rows_per_env:]
            followed = kept[: max(len(kept) - n_step, 0)]
            found |= {row.number: row for row in followed if row.is_transition}
        return found

    def _episode(self) -> Episode:
        length = int(self._rng.integers(1, self._longest + 1))
        actions = self._rng.integers(0, 5, length).tolist()
        rewards = self._rng.normal(size=length).tolist()
        end = int(self._rng.choice([TERMINATED, TRUNCATED]))
        first, self._next_number = self._next_number, self._next_number + length + 1
        return Episode(first, actions, rewards, end)


def append(replay: Replay, envs: np.ndarray, rows: list[Row]) -> None:
    replay.write(
        Rows(
            envs,
            np.array([[row.number, -row.number] for row in rows], np.float32),
            np.array([row.action for row in rows]),
            np.array([row.reward for row in rows]),
            np.array([row.end for row in rows]),
            np.array([row.is_transition for row in rows]),
        )
    )


def make(num_envs: int, rows_per_env: int, n_step: int, seed: int = 0) -> Replay:
    layout = Layout(num_envs, rows_per_env, (2,), np.dtype(np.float32), Item(n_step), GAMMA)
    return Replay(layout, Uniform(), np.random.default_rng(seed))


def sample(replay: Replay, count: int) -> Transitions:
    """One minibatch, its arrays [K, …]."""
    drawn = replay.sample(1, count)
    assert isinstance(drawn, Transitions)
    return Transitions(*(array[0] for array in drawn))


def numbers(drawn: Transitions) -> list[int]:
    return [int(number) for number in drawn.observations[:, 0]]


def episode_replay(end: int, n_step: int, rewards: list[float]) -> tuple[Replay, Episode]:
    """One finished episode, observations numbered from 1, and enough of the next one after it."""
    replay = make(1, 50, n_step)
    episode = Episode(1, [0] * len(rewards), rewards, end)
    following = Episode(1000, [0] * (n_step + 1), [500.0] * (n_step + 1), TERMINATED)
    for row in [*episode.rows(), *following.rows()]:
        append(replay, np.array([0]), [row])
    return replay, episode


def by_start(drawn: Transitions) -> dict[int, tuple[float, float, int]]:
    fields = zip(
        numbers(drawn), drawn.returns, drawn.discounts, drawn.next_observations, strict=True
    )
    return {
        start: (float(value), float(discount), int(after[0]))
        for start, value, discount, after in fields
    }
