"""What was done under one name, again and again, in room for a fixed number of times.

The first times and the last ones are kept as they were. Those between are put together, so that a
run of a week takes as much memory as one of an hour and shows where they were all the same.
"""

import collections
from typing import Any, NamedTuple

# Times that are kept as they were, at the beginning and at the end; and what those between are put
# together to, once they are twice as many.
FIRST, LAST, BETWEEN = 32, 16, 64


class Stretch(NamedTuple):
    """From the beginning of one time to the end of another."""

    began: float
    ended: float
    times: int  # in it
    seconds: float  # that these took, of all from its beginning to its end


class Series:
    """All times of one name, which are added in the order in which they end."""

    def __init__(self) -> None:
        """There was none."""
        self.times, self.seconds, self.longest, self.processor = 0, 0.0, 0.0, 0.0
        self._first: list[Stretch] = []
        self._between: list[Stretch] = []
        self._last: collections.deque[Stretch] = collections.deque()

    def add(self, began: float, ended: float, processor: float = 0.0) -> None:
        """Adds a time; one that begins at the very end of the last one goes on with that.

        Args:
            began: on any clock (seconds).
            ended: on the same clock.
            processor: what the process computed meanwhile, on all of its threads (seconds).
        """
        seconds = ended - began
        self.seconds += seconds
        self.processor += processor
        kept: Any = self._last or self._first
        if kept and kept[-1].ended == began:
            newest = kept[-1]
            kept[-1] = Stretch(newest.began, ended, newest.times, newest.seconds + seconds)
            self.longest = max(self.longest, ended - newest.began)
            return
        self.times += 1
        self.longest = max(self.longest, seconds)
        kept = self._first if len(self._first) < FIRST else self._last
        kept.append(Stretch(began, ended, 1, seconds))
        if len(self._last) > LAST:
            self._between.append(self._last.popleft())
            if len(self._between) > 2 * BETWEEN:
                self._between = _together(self._between)

    @property
    def stretches(self) -> list[Stretch]:
        """All of them, in order."""
        return [*self._first, *self._between, *self._last]


def _together(many: list[Stretch]) -> list[Stretch]:
    """At most `BETWEEN` stretches, about equally long, of more of them."""
    origin, width = many[0].began, (many[-1].ended - many[0].began) / (BETWEEN - 1)
    found: dict[int, list[Stretch]] = {}
    for each in many:
        place = int((each.began - origin) / width) if width > 0 else 0
        found.setdefault(min(place, BETWEEN - 1), []).append(each)
    return [
        Stretch(
            group[0].began,
            max(each.ended for each in group),
            sum(each.times for each in group),
            sum(each.seconds for each in group),
        )
        for group in found.values()
    ]
