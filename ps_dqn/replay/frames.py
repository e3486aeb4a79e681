"""How a replay stores observations (whole ones, or single frames of stacks): plain or compressed.

Shapes: E environments with R rows each; row `env * R + position % R` holds the observation at an
environment's absolute position, counted from the first it ever wrote.
"""

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ps_dqn.errors import UsageError, needs_extra
from ps_dqn.replay.arrays import Arrays
from ps_dqn.wire import encoding

CODECS = ("lz4",)


class Plain:
    """An array of rows; nothing is ever forgotten before its row is written again."""

    def __init__(
        self, arrays: Arrays, total_rows: int, shape: tuple[int, ...], dtype: npt.DTypeLike
    ):
        """Adds its array.

        Args:
            arrays: those of the replay.
            total_rows: E·R.
            shape: of one observation.
            dtype: as observations are stored.
        """
        self._rows = arrays.add("observations", (total_rows, *shape), dtype)
        self._bytes = self._rows.reshape(-1).view(np.uint8).data
        self._row_bytes = self._rows.nbytes // total_rows

    def write(self, rows: np.ndarray, observations: np.ndarray, positions: np.ndarray) -> None:
        """Stores observations.

        Args:
            rows: int [e].
            observations: [e, …].
            positions: absolute, int64 [e]; only compressed storage needs them.
        """
        self._rows[rows] = observations

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Copies of observations: rows of any shape [...] become [..., *shape]."""
        return encoding.take(self._rows, rows)

    def oldest(self, envs: np.ndarray) -> np.ndarray:
        """First absolute position that is still stored, int64 [e]: 0, the ring of rows decides."""
        return np.zeros(len(envs), np.int64)

    def restore(self, first: np.ndarray, end: np.ndarray) -> None:
        """Keeps these rows after a restart: all are where they were."""

    def checksum_parts(self, row: int) -> tuple[memoryview, ...]:
        """All bytes stored for a row."""
        return (self._bytes[row * self._row_bytes : (row + 1) * self._row_bytes],)


class Compressed:
    """Every observation compressed by itself, in a ring of bytes for each environment.

    The rings share one arena of fixed size. A ring of bytes may be full before the environment's
    ring of rows is: then the oldest observations are forgotten, so ask `oldest` before reading.
    """

    def __init__(
        self,
        arrays: Arrays,
        num_envs: int,
        rows_per_env: int,
        shape: tuple[int, ...],
        arena_bytes: int,
        codec: str,
    ):
        """Adds its arrays.

        Args:
            arrays: those of the replay.
            num_envs: E.
            rows_per_env: R.
            shape: of one observation, of uint8.
            arena_bytes: for the observations of all environments.
            codec: one of `CODECS`.

        Raises:
            UsageError: the codec's package is missing, or the arena is too small.
        """
        self._codec = load_codec(codec)
        self._shape = shape
        self._size = int(np.prod(shape))
        self._rows_per_env = rows_per_env
        self._ring = arena_bytes // num_envs
        least = 2 * most_bytes(self._size)
        if self._ring < least:
            raise UsageError(
                f"a replay of {arena_bytes:,} bytes for compressed observations: {num_envs} "
                f"environments need {num_envs * least:,} at least: give it more memory"
            )
        total_rows = num_envs * rows_per_env
        self._arena = arrays.add("arena", (num_envs * self._ring,), np.uint8)
        # Where a row's bytes begin, counted as positions are: an offset modulo the ring's size.
        self._starts = arrays.add("starts", (total_rows,), np.int64)
        self._lengths = arrays.add("lengths", (total_rows,), np.int32)
        self._heads = np.zeros(num_envs, np.int64)  # where the next bytes go
        self._oldest = np.zeros(num_envs, np.int64)
        self._bytes = self._arena.data
        self._tables = [table.view(np.uint8).data for table in (self._starts, self._lengths)]

    def write(self, rows: np.ndarray, observations: np.ndarray, positions: np.ndarray) -> None:
        """Compresses and stores observations, and forgets the oldest ones where it must.

        Args:
            rows: int [e]; an environment may appear again, with its next position.
            observations: uint8 [e, …].
            positions: absolute, int64 [e]; each environment's follow one another.
        """
        compress = self._codec.compress
        for row, observation, position in zip(
            rows.tolist(), observations, positions.tolist(), strict=True
        ):
            packed = compress(np.ascontiguousarray(observation), store_size=False)
            env = row // self._rows_per_env
            length = len(packed)
            start = self._allocate(env, position, length)
            self._starts[row] = start
            self._lengths[row] = length
            begin = env * self._ring + start % self._ring
            self._bytes[begin : begin + length] = packed

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Copies of observations: rows of any shape [...] become uint8 [..., *shape].

        Each distinct row is decompressed once, so ask for everything in one call.
        """
        distinct, indices = np.unique(rows, return_inverse=True)
        starts = self._begins(distinct)
        ends = starts + self._lengths[distinct]
        # Into memory that is there: joining the pieces afterwards takes three times as long.
        observations = np.empty((distinct.size, *self._shape), np.uint8)
        into = observations.reshape(-1).data
        data, size, decompress = self._bytes, self._size, self._codec.decompress
        offset = 0
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            into[offset : offset + size] = decompress(data[start:end], uncompressed_size=size)
            offset += size
        return encoding.take(observations, indices.reshape(rows.shape))

    def oldest(self, envs: np.ndarray) -> np.ndarray:
        """First absolute position whose bytes are still there, int64 [e]."""
        return self._oldest[envs]

    def restore(self, first: np.ndarray, end: np.ndarray) -> None:
        """Goes on after a restart: keeps only these rows, which must be whole.

        Args:
            first: the oldest position to keep of each environment, int64 [E].
            end: the position to be written next, int64 [E]; equal to `first` where none is kept.
        """
        for env in range(len(first)):
            last = env * self._rows_per_env + (int(end[env]) - 1) % self._rows_per_env
            kept = end[env] > first[env]
            self._heads[env] = self._starts[last] + self._lengths[last] if kept else 0
        self._oldest[:] = first

    def checksum_parts(self, row: int) -> tuple[memoryview, ...]:
        """All bytes stored for a row, and where they are; whatever stands there if damaged."""
        start, length = int(self._starts[row]), int(self._lengths[row])
        begin = row // self._rows_per_env * self._ring + start % self._ring
        starts, lengths = self._tables
        return (
            starts[8 * row : 8 * row + 8],
            lengths[4 * row : 4 * row + 4],
            self._bytes[begin : begin + length] if 0 < length <= self._ring else self._bytes[:0],
        )

    def _begins(self, rows: np.ndarray) -> np.ndarray:
        """Where the bytes of rows begin in the arena, int64 [e]."""
        return rows // self._rows_per_env * self._ring + self._starts[rows] % self._ring

    def _allocate(self, env: int, position: int, length: int) -> int:
        """Makes room; returns where it begins in the environment's endless line of bytes."""
        ring, rows = self._ring, self._rows_per_env
        start = int(self._heads[env])
        if start % ring + length > ring:  # bytes of a row never wrap around
            start += ring - start % ring
        self._heads[env] = start + length
        base, overwritten = env * rows, start + length - ring
        # The row that is written now, one turn of the ring of rows ago, is gone as well.
        oldest = max(int(self._oldest[env]), position - rows + 1)
        while oldest < position and self._starts[base + oldest % rows] < overwritten:
            oldest += 1
        self._oldest[env] = oldest
        return start


def most_bytes(size: int) -> int:
    """What an observation of so many bytes takes at most: what cannot be compressed grows."""
    return size + size // 128 + 64


def load_codec(codec: str) -> Any:
    """The module of a codec.

    Raises:
        UsageError: there is no such codec, or its package is missing.
    """
    if codec not in CODECS:
        raise UsageError(
            f"a replay's compression {codec!r}: there is no such codec, only {', '.join(CODECS)}"
        )
    try:
        return importlib.import_module("lz4.block")
    except ImportError:
        raise needs_extra(f"--replay_compression={codec}", codec, "compression") from None
