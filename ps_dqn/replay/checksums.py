"""Checksums of a replay's rows, so that after any crash only whole rows are used again.

A row's checksum is stored after the row was written: CRC-32 (zlib) over its absolute position and
all of its bytes. A process killed between the two, a page of a file that was lost, or bytes that
changed leave a row whose checksum does not fit, and it is not used.

A position counts an environment's rows from the first it ever wrote, so it is larger than the
ring: position p is in row `env * rows_per_env + p % rows_per_env`.
"""

import zlib
from collections.abc import Callable, Iterable

import numpy as np

from ps_dqn.replay.arrays import Arrays


class Checksums:
    """A checksum for each row, in arrays of their own."""

    def __init__(
        self,
        arrays: Arrays,
        total_rows: int,
        parts: Callable[[int], Iterable[bytes | memoryview]],
    ):
        """Adds its arrays.

        Args:
            arrays: those of the replay.
            total_rows: of all environments.
            parts: gives all bytes of a row, as buffers, in an order that never changes. It is
                called for damaged rows too, and must not fail for them.
        """
        self._sums = arrays.add("seal_sums", (total_rows,), np.uint32)
        # The position plus one: a row that was never written has 0.
        self._numbers = arrays.add("seal_numbers", (total_rows,), np.int64)
        self._parts = parts

    def update(self, rows: np.ndarray, positions: np.ndarray) -> None:
        """Stores the checksums of rows that are completely written.

        Args:
            rows: int [e].
            positions: absolute, of each of them in its environment, int64 [e].
        """
        numbers = positions + 1
        self._sums[rows] = [
            self._sum(row, number)
            for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)
        ]
        self._numbers[rows] = numbers

    def recover(self, num_envs: int, rows_per_env: int) -> tuple[np.ndarray, np.ndarray]:
        """Looks for each environment's longest contiguous run of whole rows.

        Args:
            num_envs: E.
            rows_per_env: of each environment's ring.

        Returns:
            Positions of the first row and after the last row of the run, int64 [E] each; equal
            where no row is whole.
        """
        first = np.zeros(num_envs, np.int64)
        end = np.zeros(num_envs, np.int64)
        for env in range(num_envs):
            whole = self._whole(env * rows_per_env, rows_per_env)
            if whole.size:
                runs = np.split(whole, np.flatnonzero(np.diff(whole) != 1) + 1)
                longest = max(runs, key=len)
                first[env], end[env] = longest[0], longest[-1] + 1
        return first, end

    def _whole(self, base: int, rows_per_env: int) -> np.ndarray:
        """Positions of an environment's rows whose checksums fit, ascending."""
        numbers = self._numbers[base : base + rows_per_env]
        positions = numbers - 1
        # Only the position that belongs into a row can be right there.
        believable = (numbers > 0) & (positions % rows_per_env == np.arange(rows_per_env))
        found = [
            position
            for row, position in zip(
                (base + np.flatnonzero(believable)).tolist(),
                positions[believable].tolist(),
                strict=True,
            )
            if self._sum(row, position + 1) == self._sums[row]
        ]
        return np.sort(np.array(found, np.int64))

    def _sum(self, row: int, number: int) -> int:
        # One call for the joined parts takes half the time of a call for each.
        return zlib.crc32(b"".join((number.to_bytes(8, "little"), *self._parts(row))))
