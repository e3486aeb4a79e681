"""Draws by priority: of errors that learning has found, or that whoever acted has foreseen.

Shapes: E environments, M minibatches of B items each, K items.
"""

import numpy as np

from ps_dqn.replay.samplers import Candidates, Drawn, NothingToDrawError, Sampler, expand
from ps_dqn.replay.sum_tree import Allocate, SumTree


class Prioritized(Sampler):
    """Proportional prioritized replay (Schaul et al. 2015, arXiv:1511.05952).

    P(i) ∝ (|δ| + ε)^α; a new item has the largest priority there has been, 1 at first. Weights
    are (N P)^-β, divided by the largest of their minibatch.
    """

    def __init__(self, alpha: float, beta_start: float, epsilon: float):
        """Makes the sampler.

        Args:
            alpha: α, 0 for uniform draws.
            beta_start: β at the start; it rises linearly to 1 over the run.
            epsilon: ε, above 0, so that everything is drawn some time.
        """
        self._alpha = alpha
        self._beta_start = beta_start
        self._epsilon = epsilon
        self._largest = 1.0  # of all (|δ| + ε)^α

    def attach(
        self, num_envs: int, slots: int, rng: np.random.Generator, allocate: Allocate
    ) -> None:
        """Allocates the tree of priorities, beside what every sampler knows."""
        super().attach(num_envs, slots, rng, allocate)
        self._tree = SumTree(num_envs * slots, allocate)
        # The tree knows these items. Rows come and go one by one, but they reach the tree together,
        # before a draw: one walk over it instead of many.
        self._first = np.zeros(num_envs, np.int64)
        self._end = np.zeros(num_envs, np.int64)

    def restore(self, candidates: Candidates) -> None:
        """Keeps the priorities that the array holds for these items, as far as they are usable."""
        envs, items = expand(candidates.first, candidates.end)
        leaves = self._leaves(envs, items)
        kept = self._tree.get(leaves)
        # A page that was lost may hold anything; priorities come from float32.
        usable = (kept > 0) & (kept < np.finfo(np.float32).max)
        self._largest = float(kept[usable].max(initial=1.0))
        values = np.where(usable, kept, self._largest)
        self._tree.reset(leaves, np.where(candidates.is_valid(envs, items), values, 0))
        self._first, self._end = candidates.first, candidates.end

    def draw(
        self, candidates: Candidates, minibatches: int, batch_size: int, progress: float
    ) -> Drawn:
        """Draws by priority, one item of each of B equal shares of the sum for a minibatch."""
        envs, items, values = self._find(candidates, minibatches, batch_size)
        beta = self._beta_start + (1 - self._beta_start) * progress
        # N and the sum of priorities are the same for all, so dividing by the largest weight of a
        # minibatch, the one of its smallest priority, removes them.
        smallest = values.min(axis=1, keepdims=True)
        weights = (smallest / values) ** beta
        # Of N a few are resets, which are never drawn.
        number = (candidates.end - candidates.first).sum()
        largest = (number * smallest / self._tree.total) ** -beta
        return Drawn(envs, items, weights.astype(np.float32), largest)

    def _find(
        self, candidates: Candidates, minibatches: int, batch_size: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Environments, items and their shares of the sum before it is 1, [M, B] each."""
        self._follow(candidates)
        if not self._tree.total:
            raise NothingToDrawError
        offsets = self._rng.random((minibatches, batch_size))
        sums = (np.arange(batch_size) + offsets) * (self._tree.total / batch_size)
        leaves = self._tree.find(sums)
        envs, slots = np.divmod(leaves, self._slots)
        first = candidates.first[envs]
        return envs, first + (slots - first) % self._slots, self._tree.get(leaves)

    def _first_values(self, leaves: np.ndarray) -> np.ndarray | float:
        """(|δ| + ε)^α of new items."""
        return self._largest

    def update(self, drawn: Drawn, priorities: np.ndarray) -> None:
        """Sets the priorities of items that were drawn, but for those that have gone since.

        Args:
            drawn: of any draw, not only the last.
            priorities: |δ|, or δ, float32 [M, B]. One that is not finite counts as the largest
                there has been. Of an item that was drawn twice, the last one counts.

        Raises:
            ValueError: not of the draw's shape.
        """
        if priorities.shape != drawn.items.shape:
            raise ValueError(f"priorities of {priorities.shape} for a draw of {drawn.items.shape}")
        values = self._values(priorities)
        finite = np.isfinite(values)
        self._largest = max(self._largest, float(values.max(initial=0, where=finite)))
        # The tree may have followed the replay since, and have other items in some leaves.
        there = drawn.items >= self._first[drawn.envs]
        leaves = self._leaves(drawn.envs, drawn.items)
        self._tree.set(leaves[there], np.where(finite, values, self._largest)[there])

    def _values(self, errors: np.ndarray) -> np.ndarray:
        return (np.abs(errors.astype(np.float64)) + self._epsilon) ** self._alpha

    def _follow(self, candidates: Candidates) -> None:
        """Brings the tree what came and went since the last draw."""
        gone = self._leaves(*expand(self._first, np.minimum(candidates.first, self._end)))
        envs, items = expand(np.maximum(self._end, candidates.first), candidates.end)
        new = self._leaves(envs, items)
        values = np.where(candidates.is_valid(envs, items), self._first_values(new), 0)
        # In this order: what came may have taken the place of what went.
        leaves = np.concatenate([gone, new])
        if leaves.size:
            self._tree.set(leaves, np.concatenate([np.zeros(gone.size), values]))
        self._first, self._end = candidates.first, candidates.end

    def _leaves(self, envs: np.ndarray, items: np.ndarray) -> np.ndarray:
        return envs * self._slots + items % self._slots


class Announced(Prioritized):
    """Of items whose first priorities come with their rows (Horgan et al. 2018, arXiv:1803.00933).

    It is one part of a replay, of which others have the rest. So a draw's weights are not weights
    yet but probabilities: of being drawn from this part, for each item of a minibatch.
    """

    def attach(
        self, num_envs: int, slots: int, rng: np.random.Generator, allocate: Allocate
    ) -> None:
        """Allocates the errors that were announced, too."""
        super().attach(num_envs, slots, rng, allocate)
        self._announced = allocate("announced", (num_envs * slots,), np.float32)

    def announce(self, envs: np.ndarray, items: np.ndarray, errors: np.ndarray) -> None:
        """Says |δ| of items that can be drawn once what follows them is there, float32 [K]."""
        self._announced[self._leaves(envs, items)] = errors

    def draw(
        self, candidates: Candidates, minibatches: int, batch_size: int, progress: float
    ) -> Drawn:
        """As `Prioritized`, with probabilities in the place of weights."""
        envs, items, values = self._find(candidates, minibatches, batch_size)
        probabilities = (values / self._tree.total).astype(np.float32)
        return Drawn(envs, items, probabilities, np.ones((minibatches, 1)))

    def _first_values(self, leaves: np.ndarray) -> np.ndarray:
        values = self._values(self._announced[leaves])
        finite = np.isfinite(values)
        self._largest = max(self._largest, float(values.max(initial=0, where=finite)))
        return np.where(finite, values, self._largest)
