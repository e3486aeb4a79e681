"""Where a run is, by the entries of the log: its counters, and how many workers push.

The same on every server, because all of them follow one log.
"""

import collections
import math
from collections.abc import Sequence
from typing import Any

from ps_dqn.state import Counters
from ps_dqn.wire.messages import Entry

# Pushes of every configured worker that are looked back upon: a worker is silent for about ten
# while it evaluates, and one much slower than the others still counts.
ROUNDS_BACK = 25
# Above what rounding takes off fractions that add up to a whole number.
ROUNDING = 1e-6


class Clock:
    """Counts pushes and what they were worth."""

    def __init__(self, num_workers: int):
        """Begins a run of so many workers, with nothing done."""
        self.counters = Counters(0, 0, 0, 0, 0)
        self.begun_at = 0  # the version at which the optimizer began
        self.pushes = 0  # that were decided
        self._num_workers = num_workers
        self._beyond = 0.0  # what versions were worth beyond whole sequential updates
        self._last: collections.deque[int] = collections.deque(maxlen=ROUNDS_BACK * num_workers)
        self._counts: collections.Counter[int] = collections.Counter()  # among the last

    @property
    def workers(self) -> int:
        """How many workers push; all of the run, until there were enough pushes to tell."""
        is_full = len(self._last) == self._last.maxlen
        return len(self._counts) if is_full else self._num_workers

    @property
    def steps(self) -> int:
        """Versions that the optimizer has made since it began."""
        return int(self.counters.version) - self.begun_at

    def begin_anew(self) -> None:
        """The optimizer begins anew with the present version."""
        self.begun_at = int(self.counters.version)

    def see(self, worker: int, collects: bool = False) -> None:
        """A worker has pushed, whatever becomes of it; or has only collected."""
        self.pushes += 1
        if collects:
            return
        if len(self._last) == self._last.maxlen:
            oldest = self._last[0]
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]
        self._last.append(worker)
        self._counts[worker] += 1

    def as_dict(self) -> dict[str, Any]:
        """What it knows beside the counters, for JSON."""
        return {"pushes": self.pushes, "beyond": self._beyond, "last": list(self._last)}

    def restore(self, pushes: int, beyond: float, last: Sequence[int]) -> None:
        """Takes over what `as_dict` has said."""
        for worker in last:
            self.see(worker)
        self.pushes, self._beyond = pushes, beyond

    def count(self, entries: Sequence[Entry], worth: float | None = None) -> None:
        """Counts what pushes bring.

        Args:
            entries: of the pushes.
            worth: sequential updates of the version they made; None where they made none.
        """
        version, updates, env_steps, episodes, sequential_updates = self.counters
        beyond = self._beyond + (worth or 0.0)
        whole = math.floor(beyond + ROUNDING)
        self._beyond = beyond - whole
        # One assignment: they move together, whoever reads them.
        self.counters = Counters(
            version + (worth is not None),
            updates + sum(entry.updates for entry in entries),
            env_steps + sum(entry.env_steps for entry in entries),
            episodes + sum(entry.episodes for entry in entries),
            sequential_updates + whole,
        )
