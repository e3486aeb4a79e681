"""Observations of several parts, and those that are no array of numbers, as one row of bytes.

So they travel and are kept like any other observation, each part in as few bytes as it needs: a
pixel is one byte, one of n things is four and not n numbers. The network takes a row apart again.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

# Where an environment's metadata have its parts.
KEY = "observation_parts"


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of an observation.

    Attributes:
        name: its keys or places within the observation, joined by dots; none of the only part.
        shape: of one frame.
        dtype: as it is kept: uint8, bool, float32, or int32 for numbers of things.
        categories: how many things each number of it chooses from, one after the other; none where
            its numbers are quantities.
        rounded_from: dtype of the environment's, where float32 does not hold all of it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    categories: tuple[int, ...] = ()
    rounded_from: str = dataclasses.field(default="", compare=False)

    @property
    def nbytes(self) -> int:
        """In a row."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_quantity(self) -> bool:
        """Whether its numbers have a scale of their own: they are neither bytes nor things."""
        return self.dtype == np.float32

    @property
    def read_shape(self) -> tuple[int, ...]:
        """As a network reads it: one-hot where it has categories."""
        return (sum(self.categories),) if self.categories else self.shape

    def __str__(self) -> str:
        what = "×".join(map(str, self.shape)) or "1"
        if self.categories:
            what = "one of " + ", of ".join(map(str, self.categories))
        rounded = f" ({self.rounded_from}, kept as float32)" if self.rounded_from else ""
        return f"{self.name} {what}{rounded}".strip()


class PackedObservation(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """Rows of bytes in the place of observations; which parts they have is in its metadata."""

    def __init__(self, env: gymnasium.Env):
        """Packs what an environment observes; `can_pack` says whether it can be done."""
        RecordConstructorArgs.__init__(self)
        gymnasium.ObservationWrapper.__init__(self, env)
        self._space = env.observation_space
        parts = parts_of(self._space)
        self.metadata = {**env.metadata, KEY: parts}
        size = sum(part.nbytes for part in parts)
        self.observation_space = spaces.Box(0, 255, (size,), np.uint8)

    def observation(self, observation: Any) -> np.ndarray:
        """One row, uint8 [bytes]."""
        pieces = [
            np.ascontiguousarray(_kept(space, part)).reshape(-1).view(np.uint8)
            for _, space, part in leaves(self._space, observation)
        ]
        return np.concatenate(pieces)


def can_pack(space: gymnasium.Space) -> bool:
    """Whether each observation of a space has as many numbers as any other."""
    return bool(space.is_np_flattenable)


def parts_of(space: gymnasium.Space) -> tuple[Part, ...]:
    """The parts of a space's observations, in the order of their rows."""
    return tuple(_part(name, leaf) for name, leaf, _ in leaves(space, None))


def leaves(
    space: gymnasium.Space, observation: Any, name: str = ""
) -> Iterator[tuple[str, gymnasium.Space, Any]]:
    """The name, space and value of each part of an observation, or of None."""
    branches: Iterable[tuple[Any, gymnasium.Space]]
    if isinstance(space, spaces.Dict):
        branches = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        branches = enumerate(space.spaces)
    else:
        yield name, space, observation
        return
    for key, branch in branches:
        part = None if observation is None else observation[key]
        yield from leaves(branch, part, f"{name}.{key}" if name else str(key))


def split(parts: tuple[Part, ...], rows: np.ndarray) -> list[tuple[Part, np.ndarray]]:
    """Each part with its bytes in rows uint8 [..., bytes]."""
    pieces = np.split(rows, np.cumsum([part.nbytes for part in parts])[:-1], axis=-1)
    return list(zip(parts, pieces, strict=True))


def unpacked(part: Part, piece: np.ndarray) -> np.ndarray:
    """What a part's bytes [..., bytes] were, [..., *shape] in its own dtype."""
    values = np.ascontiguousarray(piece).view(part.dtype)
    return values.reshape(*piece.shape[:-1], *part.shape)


def kept_dtype(space: Any) -> np.dtype:
    """Of a Box's numbers."""
    is_small = space.dtype in (np.uint8, np.bool_)
    return np.dtype(space.dtype if is_small else np.float32)


def rounded_from(space: Any) -> str:
    """Dtype of a Box's numbers, where float32 does not hold all of it."""
    dtype = np.dtype(space.dtype)
    if dtype == np.float64:
        return dtype.name
    is_whole = np.issubdtype(dtype, np.integer)
    most = max(abs(float(space.low.min())), float(space.high.max())) if is_whole else 0.0
    return dtype.name if most > 2**24 else ""


def _part(name: str, space: Any) -> Part:
    if isinstance(space, spaces.Box):
        return Part(name, space.shape, kept_dtype(space), (), rounded_from(space))
    if isinstance(space, spaces.Discrete):
        return Part(name, (), np.dtype(np.int32), (int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        categories = tuple(map(int, space.nvec.flat))
        return Part(name, (len(categories),), np.dtype(np.int32), categories)
    if isinstance(space, spaces.MultiBinary):
        return Part(name, space.shape, np.dtype(np.bool_))
    return Part(name, (spaces.flatdim(space),), np.dtype(np.float32))  # one of several spaces


def _kept(space: Any, value: Any) -> np.ndarray:
    if isinstance(space, spaces.Box):
        return np.asarray(value, kept_dtype(space))
    if isinstance(space, spaces.Discrete):
        return np.array([value - space.start], np.int32)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(value - space.start, np.int32)
    if isinstance(space, spaces.MultiBinary):
        return np.asarray(value, np.bool_)
    return np.asarray(spaces.flatten(space, value), np.float32)
