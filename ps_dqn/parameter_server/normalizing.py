"""What a parameter server follows of the environments, and writes at the head of the parameters."""

from typing import TYPE_CHECKING

import numpy as np

from ps_dqn import moments
from ps_dqn.moments import Moments

if TYPE_CHECKING:
    from ps_dqn.parameter_server.vectors import Vectors


class Normalizing:
    """All that the workers have seen; every server merges it in the order of the log.

    So each has the same numbers, bit by bit, and writes those that fall into its shard.
    """

    def __init__(self, size: int, num_returns: int, start: int = 0):
        """Nothing was seen.

        Args:
            size: numbers that are followed, those of returns last; 0: none.
            num_returns: of them, 0 or 1.
            start: of the shard in the parameter vector.
        """
        self._num_returns, self._start = num_returns, start
        self._moments = Moments(size)
        self._is_written = True

    def see(self, numbers: np.ndarray) -> None:
        """Takes what a worker has seen since its last push, int64."""
        if len(numbers):
            self._moments.merge(Moments.of_numbers(numbers))
            self._is_written = False

    def write(self, parameters: "Vectors") -> None:
        """Puts what networks need into this server's part of the vectors."""
        if not self._is_written:
            head = moments.head(self._moments, self._num_returns)[self._start :]
            if len(head):
                parameters.put(head[: parameters.size])
            self._is_written = True

    def as_numbers(self) -> np.ndarray:
        """All that was seen, int64."""
        return self._moments.as_numbers()

    def restore(self, numbers: np.ndarray) -> None:
        """Takes over what `as_numbers` has said."""
        self._moments = Moments.of_numbers(numbers)
