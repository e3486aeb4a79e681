"""Which items of a replay are drawn: uniformly, or the recent ones more often; or by priority.

An item is what a draw yields, a transition or a sequence. Each environment numbers its items from
the first it ever had and keeps a window of them, the newest of which are the youngest.

Shapes: E environments, M minibatches of B items each, K items.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ps_dqn.replay.sum_tree import Allocate

PATIENCE = 200  # draws in vain before an item is looked for elsewhere


class Candidates(NamedTuple):
    """Items that can be drawn now: of each environment, `first` to before `end`, if valid."""

    first: np.ndarray  # int64 [E]
    end: np.ndarray  # int64 [E]
    is_valid: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (envs [K], items [K]) -> bool [K]


class Drawn(NamedTuple):
    """Items, and how much each of them counts in a loss."""

    envs: np.ndarray  # int64 [M, B]
    items: np.ndarray  # int64 [M, B]
    weights: np.ndarray  # float32 [M, B], at most 1
    largest: np.ndarray  # what the weight 1 was before it became that, float64 [M, 1]


class NothingToDrawError(ValueError):
    """No candidate is valid."""

    def __init__(self) -> None:
        super().__init__("the replay has no complete transition yet")


class Sampler(abc.ABC):
    """Draws items; made for one replay, which attaches it before anything else."""

    def attach(
        self, num_envs: int, slots: int, rng: np.random.Generator, allocate: Allocate
    ) -> None:
        """Tells the sampler what it draws from.

        Args:
            num_envs: E.
            slots: items that an environment keeps; item i takes the place of item i - slots.
            rng: its own generator.
            allocate: makes an array from a name, a shape and a dtype: zeros, or what an earlier
                process had in it.
        """
        self._num_envs = num_envs
        self._slots = slots
        self.reseed(rng)

    def reseed(self, rng: np.random.Generator) -> None:
        """Takes another generator, its own."""
        self._rng = rng

    @abc.abstractmethod
    def draw(
        self, candidates: Candidates, minibatches: int, batch_size: int, progress: float
    ) -> Drawn:
        """Draws with replacement.

        Args:
            candidates: the items there are.
            minibatches: M.
            batch_size: B.
            progress: share of the run that is done, 0 to 1.

        Raises:
            NothingToDrawError: no candidate is valid.
        """

    def restore(self, candidates: Candidates) -> None:  # noqa: B027 - most have nothing to restore
        """Takes over what an earlier process knew of the items."""

    def update(self, drawn: Drawn, priorities: np.ndarray) -> None:  # noqa: B027 - few have some
        """Sets the priorities of items that were drawn, float32 [M, B]."""


class Uniform(Sampler):
    """Every item with the same probability."""

    def draw(
        self, candidates: Candidates, minibatches: int, batch_size: int, progress: float
    ) -> Drawn:
        """Draws uniformly, with weights of 1."""
        counts = candidates.end - candidates.first
        rows = np.zeros(minibatches * batch_size, np.int64)
        drawn = _draw_newest(candidates, counts[None], rows, self._rng)
        return _unweighted(*drawn, minibatches, batch_size)


class Recent(Sampler):
    """Emphasizing recent experience (Wang and Ross 2019, arXiv:1906.04009).

    Minibatch m = 1 … M draws uniformly from the newest max(N · η^(1000 m/M), `min_size`) of N
    items: the last minibatches from the newest only. Environments count alike, so "newest" is by
    age in each of them.
    """

    def __init__(self, eta: float, min_size: int):
        """Makes the sampler.

        Args:
            eta: η at the start, above 0; it rises linearly to 1, which is uniform, over the run.
            min_size: the fewest items that a minibatch is drawn from.
        """
        self._eta = eta
        self.min_size = min_size

    def draw(
        self, candidates: Candidates, minibatches: int, batch_size: int, progress: float
    ) -> Drawn:
        """Draws the newest more often, with weights of 1."""
        eta = self._eta + (1 - self._eta) * progress
        counts = candidates.end - candidates.first  # [E]
        exponents = 1000 * np.arange(1, minibatches + 1) / minibatches
        wanted = np.maximum(counts.sum() * eta**exponents, self.min_size)  # [M]
        newest = np.minimum(counts, _ages(counts, wanted)[:, None])  # [M, E]
        rows = np.repeat(np.arange(minibatches), batch_size)
        drawn = _draw_newest(candidates, newest, rows, self._rng)
        return _unweighted(*drawn, minibatches, batch_size)


def _unweighted(envs: np.ndarray, items: np.ndarray, minibatches: int, batch_size: int) -> Drawn:
    shape = (minibatches, batch_size)
    weights = np.ones(shape, np.float32), np.ones((minibatches, 1))
    return Drawn(envs.reshape(shape), items.reshape(shape), *weights)


def expand(first: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Environments and items of the ranges `first` to before `end` of each environment, [K]."""
    counts = np.maximum(end - first, 0)
    envs = np.repeat(np.arange(len(counts)), counts)
    items = np.arange(len(envs)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return envs, items


def _ages(counts: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The least age a, int64 [M], at which Σ_e min(counts_e, a) reaches each wanted sum [M]."""
    ordered = np.sort(counts)
    longer = np.arange(len(counts) - 1, -1, -1)  # environments that have more items
    reached = np.cumsum(ordered) + longer * ordered  # the sum at an age of ordered_e
    ages = np.interp(wanted, np.append(0, reached), np.append(0, ordered))
    return np.ceil(ages).astype(np.int64)


def _draw_newest(
    candidates: Candidates, counts: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws uniformly from the newest candidates, until all are valid.

    Args:
        candidates: the items there are.
        counts: how many of each environment, the newest, int64 [R, E].
        rows: the row of `counts` that each draw is from, int64 [K].
        rng: generator.

    Returns:
        Environments and items, int64 [K] each.
    """
    upper = np.cumsum(counts).reshape(counts.shape)  # [R, E]
    lower = np.append(0, upper[:-1, -1])  # [R]
    widths = upper[:, -1] - lower
    if not widths.all():
        raise NothingToDrawError
    envs, items = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    wanted = np.arange(len(rows))
    for _ in range(PATIENCE):
        row = rows[wanted]
        # Much quicker than integers of different ranges; the product is below the width.
        drawn = lower[row] + (rng.random(row.size) * widths[row]).astype(np.int64)
        cell = np.searchsorted(upper.ravel(), drawn, side="right")
        env = cell % counts.shape[1]
        item = candidates.end[env] - (upper.ravel()[cell] - drawn)
        envs[wanted], items[wanted] = env, item
        wanted = wanted[~candidates.is_valid(env, item)]
        if not wanted.size:
            return envs, items
    # None or hardly any of them is valid, as where all environments have just ended an episode.
    all_envs, all_items = expand(candidates.first, candidates.end)
    valid = np.flatnonzero(candidates.is_valid(all_envs, all_items))
    if not valid.size:
        raise NothingToDrawError
    chosen = rng.choice(valid, wanted.size)
    envs[wanted], items[wanted] = all_envs[chosen], all_items[chosen]
    return envs, items
