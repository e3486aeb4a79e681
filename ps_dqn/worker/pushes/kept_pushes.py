"""Pushes that a worker keeps until a snapshot has them.

A parameter server that dies takes along what it has applied since the newest snapshot. Its
successor begins with that one, and gets the pushes after it again, from the workers that made them.
"""

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PushHeader, Verdict

# One worker keeps no more than these (bytes): the oldest go.
MOST_BYTES = 128 * 2**20
# Of the table of what is kept: number, kind and version, and the header.
COLUMNS = 3 + len(PushHeader._fields)


class KeptPush(NamedTuple):
    """What was pushed."""

    header: np.ndarray  # the `PushHeader`, int64 [fields]
    messages: Sequence[np.ndarray]  # the part of the vector of each server, uint8
    number: int  # in the run; UNDECIDED until the servers have said what became of it
    kind: int  # that it was decided to be
    version: int  # of the parameters, right after that

    @property
    def ticket(self) -> int:
        """Of the push."""
        return int(messages.unpack(PushHeader, self.header).ticket)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(message.nbytes for message in self.messages)


class KeptPushes:
    """The newest pushes of one worker, in the order in which it made them."""

    def __init__(self, most_bytes: int = MOST_BYTES):
        """Keeps none yet, and never more than so many bytes of them."""
        self._pushes: collections.deque[KeptPush] = collections.deque()
        self._most_bytes, self._nbytes = most_bytes, 0

    def __len__(self) -> int:
        return len(self._pushes)

    def __getitem__(self, index: int) -> KeptPush:
        return self._pushes[index]

    @property
    def awaits_verdict(self) -> bool:
        """Whether it is not known yet what became of the last one."""
        return bool(self._pushes) and self._pushes[-1].number == messages.UNDECIDED

    def add(self, header: np.ndarray, packed: Sequence[np.ndarray]) -> None:
        """Keeps one that is to be pushed now."""
        self._append(KeptPush(header, packed, messages.UNDECIDED, Kind.APPLIED, 0))
        while self._nbytes > self._most_bytes and len(self._pushes) > 1:
            self._nbytes -= self._pushes.popleft().nbytes

    def decided(self, verdict: Verdict, index: int = -1) -> None:
        """What became of one of them, the last if not said otherwise.

        Args:
            verdict: the servers'; of a repetition they have another attempt's vector.
            index: of the push, here.
        """
        push = self._pushes[index]
        if verdict.number == messages.NO_NUMBER:
            self._nbytes -= push.nbytes
            push = push._replace(messages=())
        self._pushes[index] = push._replace(
            number=verdict.number, kind=verdict.kind, version=verdict.version
        )

    def forget(self, safe: int, oldest: int) -> None:
        """Lets go of what nobody will ask for.

        Args:
            safe: pushes of lower numbers are in a snapshot.
            oldest: tickets below it will not come again.
        """
        pushes = list(self._pushes)
        self.clear()
        for push in pushes:
            is_undecided = push.number == messages.UNDECIDED
            if push.ticket >= oldest if is_undecided else push.number >= safe:
                self._append(push)

    def clear(self) -> None:
        """Keeps none."""
        self._pushes.clear()
        self._nbytes = 0

    def table(self) -> np.ndarray:
        """Number, kind, version and header of each, int64 [pushes, COLUMNS and moments]."""
        lines = [[push.number, push.kind, push.version, *push.header] for push in self._pushes]
        return np.array(lines, np.int64) if lines else np.zeros((0, COLUMNS), np.int64)

    def several(self, first: int, most_bytes: int) -> list[np.ndarray]:
        """Some that follow each other, from one that has its vector on.

        Args:
            first: the place of that one.
            most_bytes: of all together, where there are several.

        Returns:
            The bytes of each push for each server, int64 [pushes, servers]; and for each server
            those messages one after another, uint8.
        """
        chosen: list[Sequence[np.ndarray]] = []
        nbytes = 0
        for place in range(first, len(self._pushes)):
            push = self._pushes[place]
            nbytes += push.nbytes
            if chosen and (nbytes > most_bytes or not push.messages):
                break
            chosen.append(push.messages)
        sizes = [[message.nbytes for message in each] for each in chosen]
        parts = [np.concatenate(part) for part in zip(*chosen, strict=True)]
        return [np.array(sizes, np.int64), *parts]

    def _append(self, push: KeptPush) -> None:
        self._pushes.append(push)
        self._nbytes += push.nbytes
