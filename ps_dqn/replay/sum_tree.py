"""A binary tree of sums in one array, for draws in proportion to the leaves' values.

Node 1 is the root, node i has the children 2i and 2i + 1, and leaf j of L is node L + j. Every
operation takes many leaves at once and walks the tree level by level.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Allocate = Callable[[str, tuple[int, ...], npt.DTypeLike], np.ndarray]


class SumTree:
    """Non-negative numbers, their sum, and where a share of that sum falls.

    An inner node is always computed from its two children, never changed by a difference, so
    rounding errors do not add up.
    """

    def __init__(self, size: int, allocate: Allocate):
        """Allocates L leaves, the power of two that holds `size` of them.

        Args:
            size: leaves that are used.
            allocate: makes the array, zeros or what was there before, from a name, a shape and a
                dtype.
        """
        self._num_leaves = 1 << max(size - 1, 1).bit_length()  # L
        self._nodes = allocate("priorities", (2 * self._num_leaves,), np.float64)

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._nodes[1])

    def get(self, leaves: np.ndarray) -> np.ndarray:
        """Values of leaves, float64 of the same shape."""
        return self._nodes[leaves + self._num_leaves]

    def set(self, leaves: np.ndarray, values: np.ndarray) -> None:
        """Changes leaves.

        Args:
            leaves: int [K]; of a leaf that is named twice, the last value counts.
            values: finite and not negative, float [K].
        """
        nodes = leaves + self._num_leaves
        self._nodes[nodes] = values
        first = self._num_leaves // 2  # the leftmost node of a level
        # Low levels have more nodes than have changed; high levels are quicker summed whole.
        while first > len(leaves):
            nodes >>= 1
            left = nodes << 1
            self._nodes[nodes] = self._nodes.take(left) + self._nodes.take(left + 1)
            first //= 2
        self._sum_levels(first)

    def reset(self, leaves: np.ndarray, values: np.ndarray) -> None:
        """Forgets everything and sets these leaves; as `set`."""
        self._nodes[:] = 0
        self._nodes[leaves + self._num_leaves] = values
        self._sum_levels(self._num_leaves // 2)

    def find(self, sums: np.ndarray) -> np.ndarray:
        """The leaves in which running sums fall: the first whose sum up to it is above.

        Args:
            sums: from 0 to the total, which must be above 0, float64 [K].

        Returns:
            int64 [K]. Their values are never 0, wherever rounding puts the running sums.
        """
        left_over = sums.copy()
        nodes = np.ones(sums.shape, np.int64)
        for _ in range(self._num_leaves.bit_length() - 1):
            nodes <<= 1
            left = self._nodes.take(nodes)
            # The right child must have something: a sum that rounding left too large would
            # otherwise end in a leaf of 0. One of two children has something, as their parent has.
            right = (left_over >= left) & (self._nodes.take(nodes + 1) > 0)
            left_over -= left * right
            nodes += right
        return nodes - self._num_leaves

    def _sum_levels(self, first: int) -> None:
        """Sums the level that begins with a node and all levels above it."""
        while first:
            children = self._nodes[2 * first : 4 * first]
            np.add(children[::2], children[1::2], out=self._nodes[first : 2 * first])
            first //= 2
