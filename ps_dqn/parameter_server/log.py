"""Which pushes a parameter server has seen: what is staged, and what was decided."""

import numpy as np

from ps_dqn.wire.messages import Kind


class Tickets:
    """Every push has a ticket, the same when its closure runs again, which is another attempt.

    A ticket is decided once. What is known of tickets below the oldest one that may still come is
    forgotten; one of those that comes all the same is a repetition.
    """

    def __init__(self) -> None:
        self._staged: dict[tuple[int, int], np.ndarray] = {}
        self._decided: dict[int, Kind] = {}
        self._oldest = 0

    @property
    def staged(self) -> int:
        """Messages that are kept."""
        return len(self._staged)

    def stage(self, ticket: int, attempt: int, message: np.ndarray) -> None:
        """Keeps a message until its ticket is decided."""
        if self.decision(ticket) is None:
            self._staged[ticket, attempt] = message

    def message(self, ticket: int, attempt: int) -> np.ndarray:
        """What was staged."""
        return self._staged[ticket, attempt]

    def decide(self, ticket: int, kind: Kind) -> None:
        """Remembers what became of a ticket, and lets go of what any attempt has staged for it."""
        self._decided[ticket] = kind
        for key in [key for key in self._staged if key[0] == ticket]:
            del self._staged[key]

    def decision(self, ticket: int) -> Kind | None:
        """What became of a ticket; None where it is new. Forgotten ones are called late."""
        return Kind.LATE if ticket < self._oldest else self._decided.get(ticket)

    def raise_oldest(self, oldest: int) -> None:
        """Forgets the tickets below."""
        if oldest <= self._oldest:
            return
        self._oldest = oldest
        for ticket in [ticket for ticket in self._decided if ticket < oldest]:
            del self._decided[ticket]
        for key in [key for key in self._staged if key[0] < oldest]:
            del self._staged[key]
