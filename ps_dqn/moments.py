"""Running mean and spread of what environments show and pay, merged exactly over workers.

Workers count what they see between two pushes; parameter servers merge what comes with each push,
in the order of their log, and write what a network needs of it at the head of the parameter vector:
so it is in every pull, checkpoint and export, and it counts once like the push.

Shapes: N numbers that are followed, of which F are of an observation and R, 0 or 1, the return.
"""

import numpy as np


class Moments:
    """How many rows were seen, their mean and the sum of squares around it."""

    def __init__(self, size: int):
        """Has seen none; `size` is N."""
        self.count = 0.0
        self.mean = np.zeros(size)  # float64 [N]
        self.squares = np.zeros(size)  # float64 [N]

    def add(self, rows: np.ndarray) -> None:
        """Counts rows, float [n, N]."""
        if len(rows):
            other = Moments(rows.shape[1])
            other.count = float(len(rows))
            other.mean = rows.mean(axis=0, dtype=np.float64)
            other.squares = np.square(rows - other.mean).sum(axis=0)
            self.merge(other)

    def merge(self, other: "Moments") -> None:
        """Counts what the other has seen too (Chan, Golub and LeVeque 1983)."""
        if not other.count:
            return
        total = self.count + other.count
        way = other.mean - self.mean
        self.mean = self.mean + way * (other.count / total)
        self.squares = self.squares + other.squares
        self.squares += np.square(way) * (self.count * other.count / total)
        self.count = total

    def as_numbers(self) -> np.ndarray:
        """Count, means and squares, their bits as int64 [1 + 2N]; none of no numbers."""
        if not len(self.mean):
            return np.zeros(0, np.int64)
        return np.concatenate([[self.count], self.mean, self.squares]).view(np.int64)

    @classmethod
    def of_numbers(cls, numbers: np.ndarray) -> "Moments":
        """What `as_numbers` was of."""
        size = max(len(numbers) - 1, 0) // 2
        moments = cls(size)
        if size:
            values = np.ascontiguousarray(numbers).view(np.float64)
            moments.count = float(values[0])
            moments.mean, moments.squares = values[1 : 1 + size].copy(), values[1 + size :].copy()
        return moments


def num_numbers(size: int) -> int:
    """Of `Moments.as_numbers`, for N."""
    return 1 + 2 * size if size else 0


def head(moments: Moments, num_returns: int) -> np.ndarray:
    """The head of the parameter vector: F means, F scales, R scales of rewards; float32.

    A scale is one over the standard deviation, and 1 of what has never differed.
    """
    variance = moments.squares / max(moments.count, 1.0)
    has_spread = variance > 0
    scale = np.where(has_spread, 1 / np.sqrt(np.where(has_spread, variance, 1.0)), 1.0)
    observed = len(scale) - num_returns
    return np.concatenate([moments.mean[:observed], scale]).astype(np.float32)
