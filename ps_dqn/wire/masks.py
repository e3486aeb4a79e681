"""Vectors most of whose numbers are zero, as bytes: which are not, and those alone.

Shapes: n numbers of a vector, k of them kept.
"""

import functools
import zlib

import numpy as np

from ps_dqn.wire import encoding, messages

NO_GROWTH = np.zeros(0, np.float32)
_CHECKSUM = 4  # bytes


class Mask:
    """Which numbers of a vector are kept; all others are zero.

    Attributes:
        size: n.
        number: how many masks there were before it; 0 keeps all.
        count: k.
    """

    def __init__(self, size: int, number: int = 0, kept: np.ndarray | None = None):
        """Keeps those that `kept` says, bool [n]; None: all."""
        self.size, self.number = size, number
        self._places = None if kept is None else np.flatnonzero(kept)
        self.count = size if self._places is None else len(self._places)

    @functools.cached_property
    def kept(self) -> np.ndarray:
        """Which are kept, bool [n]."""
        kept = np.full(self.size, self._places is None)
        if self._places is not None:
            kept[self._places] = True
        return kept

    @functools.cached_property
    def bits(self) -> np.ndarray:
        """The same, eight to a byte, uint8 [ceil(n / 8)]."""
        return np.packbits(self.kept)

    @classmethod
    def of_bits(cls, bits: np.ndarray, size: int, number: int) -> "Mask":
        """Of what `bits` was."""
        return cls(size, number, np.unpackbits(bits, count=size).view(np.bool_))

    def of(self, vector: np.ndarray) -> np.ndarray:
        """What is kept of a vector, float32 [k]; its own memory where that is all."""
        return vector if self._places is None else encoding.take(vector, self._places)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """The vector, float32 [n], of which these were kept; their memory where that is all."""
        if self._places is None:
            return values
        vector = encoding.aligned(4 * self.size).view(np.float32)
        vector[:] = 0
        vector[self._places] = values
        return vector

    def only(self, vector: np.ndarray) -> np.ndarray:
        """A vector with zeros where nothing is kept, float32 [n]."""
        return self.spread(self.of(vector))

    def pack(self, vector: np.ndarray, dtype: str, growth: np.ndarray = NO_GROWTH) -> np.ndarray:
        """A vector as a server of the same mask unpacks it, uint8.

        Args:
            vector: float32 [n].
            dtype: of the wire.
            growth: what to say of numbers that are not kept, float32 [n]; [0]: nothing.
        """
        if self._places is None:
            return messages.pack_vector(vector, dtype)
        parts = [self.of(vector), *([self._others.of(growth)] if len(growth) else [])]
        sizes = [encoding.size(len(part), dtype) for part in parts]
        message = encoding.aligned(sum(sizes) + _CHECKSUM)
        for part, start, size in zip(parts, (0, sizes[0]), sizes, strict=False):
            encoding.encode(part, dtype, message[start : start + size])
        message[-_CHECKSUM:] = self._checksum
        return message

    def unpack(self, message: np.ndarray, dtype: str) -> np.ndarray:
        """The vector, float32 [n]; where none is kept, what was said of growth.

        Nothing but zeros, where it was packed by another mask: servers that have lost pushes may
        have come to another one of the same number.
        """
        if self._places is None:
            return messages.unpack_vector(message, self.size, dtype)
        size = encoding.size(self.count, dtype)
        values, others = message[:size], message[size:-_CHECKSUM]
        if not np.array_equal(message[-_CHECKSUM:], self._checksum):
            return np.zeros(self.size, np.float32)
        vector = self.spread(encoding.decode(values, self.count, dtype))
        if len(others):
            found = encoding.decode(others, self.size - self.count, dtype)
            vector += self._others.spread(found)
        return vector

    @functools.cached_property
    def _others(self) -> "Mask":
        return Mask(self.size, self.number, ~self.kept)

    @functools.cached_property
    def _checksum(self) -> np.ndarray:
        return np.array([zlib.crc32(self.bits.tobytes())], np.uint32).view(np.uint8)
