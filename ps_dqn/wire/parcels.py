"""A state on its way between the coordinator and who holds it, in parcels.

No message of gRPC may have 2 GiB. A state has several vectors of all parameters, and in a round one
more of each worker that has pushed.

Shapes: V vectors of P parameters.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.state import State
from ps_dqn.wire import bridge

# Bytes of a parcel, unless one vector has more.
PARCEL = 1 << 28
_NUMBER = tf.TensorSpec([], tf.int64)
_OTHERS = tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.string)
# Calls a method of the task that holds the state, with its inputs and the specs of what it returns.
Ask = Callable[[str, Sequence[Any], Sequence[tf.TensorSpec]], list[Any]]


def fetch(ask: Ask, size: int) -> tuple[np.ndarray, np.ndarray, bytes]:
    """What a task holds, as `State.as_arrays` has it.

    Args:
        ask: of the task.
        size: P.

    Returns:
        No vectors at all where the task holds nothing, or not any more.
    """
    vectors = tf.TensorSpec([None, size], tf.float32)
    parcels: list[np.ndarray] = []
    rows, total = 0, 1
    while rows < total:
        parcel, *others, total = ask("checkpoint", [np.int64(rows)], [vectors, *_OTHERS, _NUMBER])
        if not len(parcel):
            return parcel, np.zeros(0, np.int64), b""
        parcels.append(parcel)
        rows += len(parcel)
    return np.concatenate(parcels) if len(parcels) > 1 else parcels[0], *others


def give(ask: Ask, vectors: np.ndarray, numbers: np.ndarray, text: str) -> None:
    """Has a task go on with a state, as `State.as_arrays` has it."""
    for first, count in _cut(len(vectors), vectors[:1].nbytes):
        place = np.array([first, len(vectors)], np.int64)
        part = vectors[first : first + count]
        ask("restore", [place, part, numbers, text], [tf.TensorSpec([], tf.int32)])


class Parcels:
    """What the task that holds a state answers."""

    def __init__(self, whole: Callable[[], State], restore: Callable[[State], None]):
        """Holds none on its way.

        Args:
            whole: the state to hand out.
            restore: goes on with one.
        """
        self._whole, self._restore = whole, restore
        self._leaving: State | None = None
        self._coming: list[np.ndarray] = []

    def checkpoint(self, first: Any) -> list[Any]:
        """A parcel of the state's vectors from one on, float32 [n, P], the others, and V."""
        if not int(first):
            self._leaving = self._whole()
        state = self._leaving
        if state is None:
            raise bridge.Superseded("a parcel of what is not on its way")
        _, count = next(_cut(len(state.vectors) - int(first), state.online.nbytes))
        vectors = state.vectors[int(first) : int(first) + count]
        if int(first) + count == len(state.vectors):
            self._leaving = None
        return [np.stack(vectors), *state.others, np.int64(len(state.vectors))]

    def restore(self, place: np.ndarray, vectors: np.ndarray, *others: Any) -> list[Any]:
        """Takes a parcel, and goes on with the state once all are there.

        Args:
            place: the number of the parcel's first vector, and V.
            vectors: of the parcel, float32 [n, P]: their memory may go away.
            others: numbers and text of the state.
        """
        first, total = map(int, place)
        if not first:
            self._coming = []
        if first != sum(map(len, self._coming)):
            raise bridge.Superseded("a parcel of what has not begun to come")
        self._coming.append(np.array(vectors))
        if first + len(vectors) == total:
            matrix = np.concatenate(self._coming)
            self._coming = []
            self._restore(State.from_arrays(matrix, *others))
        return [np.int32(1)]


def _cut(number: int, size: int) -> Iterator[tuple[int, int]]:
    """Where parcels of so many vectors of so many bytes begin, and how many each has."""
    most = max(PARCEL // size, 1)
    for first in range(0, number, most):
        yield first, min(most, number - first)
