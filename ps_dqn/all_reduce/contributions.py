"""What the workers of a round add up: one vector for everything.

A worker's gradient comes first, then a place for the numbers of each member, of which a worker
fills its own and leaves the others zero. So one collective brings the sum of the gradients and who
has given what. Numbers are int64, and a sum of float32 is exact only to 2^24: they travel as
pieces of 16 bits, each of which is added to zeros alone.

Shapes: P parameters, N members, H numbers of a push (its header and what the worker has seen).
"""

import numpy as np

from ps_dqn.wire import encoding

# float32 for each int64.
PIECES = 4


def size(num_parameters: int, num_numbers: int, num_members: int) -> int:
    """float32 of a contribution: P + PIECES·H·N."""
    return num_parameters + PIECES * num_numbers * num_members


class Contributions:
    """A worker's place among what is added up, in memory that is used again each round."""

    def __init__(self, num_parameters: int, num_numbers: int, num_workers: int):
        """Of zeros.

        Args:
            num_parameters: P.
            num_numbers: H.
            num_workers: members that there may be at most.
        """
        self._num_parameters, self._num_numbers = num_parameters, num_numbers
        most = size(num_parameters, num_numbers, num_workers)
        self._buffer = encoding.aligned(4 * most).view(np.float32)

    def put(self, vector: np.ndarray | None) -> None:
        """Takes a gradient, float32 [P]; None: nothing is added to that of the others."""
        self._buffer[: self._num_parameters] = 0.0 if vector is None else vector

    def pack(self, numbers: np.ndarray, place: int, num_members: int) -> np.ndarray:
        """The contribution, float32 [`size`], until the next is packed.

        Args:
            numbers: of the push, int64 [H].
            place: of this worker among the members.
            num_members: N.
        """
        whole = size(self._num_parameters, self._num_numbers, num_members)
        pieces = self._buffer[self._num_parameters : whole].reshape(num_members, -1)
        pieces[:] = 0.0
        pieces[place] = np.ascontiguousarray(numbers).view(np.uint16)
        return self._buffer[:whole]

    def unpack(self, summed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What was added up.

        Args:
            summed: float32 [`size`].

        Returns:
            The sum of the gradients, float32 [P], and each member's numbers, int64 [N, H].
        """
        pieces = summed[self._num_parameters :].reshape(-1, PIECES * self._num_numbers)
        return summed[: self._num_parameters], pieces.astype(np.uint16).view(np.int64)
