"""The log that every parameter server follows, and the tickets that make a push count once."""

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.wire.messages import NO_NUMBER, Entry, Kind

# Entries the first server keeps for the others: far more than can be on their way.
LOG_LENGTH = 10_000


class Decision(NamedTuple):
    """What became of a push."""

    kind: Kind
    attempt: int  # that it was of
    number: int  # of the push; see `Verdict`


class Staged(NamedTuple):
    """What a server has of a push before it is decided."""

    message: np.ndarray  # its part of the vector, uint8
    moments: np.ndarray  # what the worker has seen since its last push, int64: see `moments`


_FORGOTTEN = Decision(Kind.LATE, 0, NO_NUMBER)


class Log:
    """Where a server is in the log; on the first one of several, its newest entries too."""

    def __init__(self, is_shared: bool):
        """Is empty; entries are kept where other servers follow."""
        self._is_shared = is_shared
        self._entries: collections.deque[Entry] = collections.deque(maxlen=LOG_LENGTH)
        self.next_index = 0  # the first entry that this server lacks

    def append(self, entry: Entry) -> None:
        """Writes an entry, on the first server."""
        if self._is_shared:
            self._entries.append(entry)

    def since(self, index: int) -> list[Entry]:
        """The entries from an index on, or from the oldest that is kept.

        Who asks says what a server lacked a while ago: it may have more than that by now. One that
        does lack what is not kept any more refuses to follow.
        """
        if not self._is_shared or index >= self.next_index:
            return []
        first = max(index - self._entries[0].position, 0)
        return [self._entries[i] for i in range(first, len(self._entries))]


class Tickets:
    """Every push has a ticket, the same when its closure runs again, which is another attempt.

    A ticket is decided once. What is known of tickets below the oldest one that may still come is
    forgotten; one of those that comes all the same is a repetition.
    """

    def __init__(self) -> None:
        self._staged: dict[tuple[int, int], Staged] = {}
        self._decided: dict[int, Decision] = {}
        self._oldest = 0

    @property
    def staged(self) -> int:
        """Pushes that are kept."""
        return len(self._staged)

    def stage(self, ticket: int, attempt: int, push: Staged) -> None:
        """Keeps a push until its ticket is decided."""
        if self.decision(ticket) is None:
            self._staged[ticket, attempt] = push

    def staged_push(self, ticket: int, attempt: int) -> Staged:
        """What was staged."""
        return self._staged[ticket, attempt]

    def decide(self, ticket: int, decision: Decision) -> None:
        """Remembers what became of a ticket, and lets go of what any attempt has staged for it."""
        self._decided[ticket] = decision
        for key in [key for key in self._staged if key[0] == ticket]:
            del self._staged[key]

    def decision(self, ticket: int) -> Decision | None:
        """What became of a ticket; None where it is new. Forgotten ones are called late."""
        return _FORGOTTEN if ticket < self._oldest else self._decided.get(ticket)

    def as_dict(self) -> dict[str, Any]:
        """What was decided, for JSON; what is staged is not."""
        decided = [[ticket, *map(int, decision)] for ticket, decision in self._decided.items()]
        return {"decided": decided, "oldest": self._oldest}

    def restore(self, decided: Sequence[Sequence[int]], oldest: int) -> None:
        """Takes over what `as_dict` has said."""
        self._decided = {
            ticket: Decision(Kind(kind), attempt, number)
            for ticket, kind, attempt, number in decided
        }
        self._oldest = oldest

    def raise_oldest(self, oldest: int) -> None:
        """Forgets the tickets below."""
        if oldest <= self._oldest:
            return
        self._oldest = oldest
        for ticket in [ticket for ticket in self._decided if ticket < oldest]:
            del self._decided[ticket]
        for key in [key for key in self._staged if key[0] < oldest]:
            del self._staged[key]
