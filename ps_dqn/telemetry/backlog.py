"""What waits for a service or a disk that may not be there for days."""

import collections
from typing import Generic, TypeVar

_Each = TypeVar("_Each")

# So many at most: 30 MB or so of a run's rows.
MOST = 10_000


class Backlog(Generic[_Each]):
    """The newest of what waits.

    Attributes:
        waiting: in the order in which it came.
    """

    def __init__(self) -> None:
        self.waiting: collections.deque[_Each] = collections.deque(maxlen=MOST)
        self._dropped = 0

    def add(self, each: _Each) -> None:
        """Adds one; the oldest gives way to it where there are too many."""
        self._dropped += len(self.waiting) == self.waiting.maxlen
        self.waiting.append(each)

    def take_dropped(self) -> int:
        """How many gave way since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped
