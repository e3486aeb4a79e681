"""Rows of numbers with checksums: what they hold follows from their position."""

import pathlib

import numpy as np

from ps_dqn.replay.arrays import Arrays
from ps_dqn.replay.checksums import Checksums

ENVS, ROWS, WIDTH = 2, 50, 3


class Table:
    """Rows of numbers with checksums."""

    def __init__(self, folder: pathlib.Path | None = None, rows: int = ROWS, width: int = WIDTH):
        self.rows = rows
        arrays = Arrays(folder, {"rows": rows, "width": width})
        self.values = arrays.add("values", (ENVS * rows, width), np.int64)
        self.ends = arrays.add("ends", (ENVS * rows,), np.uint8)
        values, ends = self.values.reshape(-1).view(np.uint8).data, self.ends.data
        step = 8 * width
        self.checksums = Checksums(
            arrays,
            ENVS * rows,
            lambda row: (values[step * row : step * row + step], ends[row : row + 1]),
        )
        # What is on the disk besides the rows; tests damage it.
        self.sums, self.numbers = self.checksums._sums, self.checksums._numbers
        self.close = arrays.close

    def write(self, position: int, envs: range = range(ENVS), with_checksum: bool = True) -> None:
        rows = np.array(envs) * self.rows + position % self.rows
        self.values[rows] = content(position)
        self.ends[rows] = position % 3
        if with_checksum:
            self.checksums.update(rows, np.full(len(envs), position))

    def recover(self) -> list[tuple[int, int]]:
        """Of each environment; and all rows that it calls whole are what was written."""
        first, end = self.checksums.recover(ENVS, self.rows)
        assert first.dtype == end.dtype == np.int64
        for env in range(ENVS):
            for position in range(first[env], end[env]):
                row = env * self.rows + position % self.rows
                assert (self.values[row] == content(position)).all()
                assert self.ends[row] == position % 3
        return list(zip(first.tolist(), end.tolist(), strict=True))


def content(position: int) -> int:
    return 1000 * position + 7


def filled(until: int, **arguments) -> Table:
    table = Table(**arguments)
    for position in range(until):
        table.write(position)
    return table
