"""The newest snapshot of the parameter servers, in the coordinator's memory."""

import collections
import time

from ps_dqn.parameter_server import standing
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.shelf import Shelf
from ps_dqn.state import State
from ps_dqn.telemetry.report import Report
from ps_dqn.worker.kept_pushes import MOST_BYTES

# Snapshots take no more than this share of the time.
MOST_TIME = 0.01


class Snapshots:
    """Outlives connections: a server that is lost goes on from the newest one."""

    def __init__(self, period: float, shelf: Shelf | None = None):
        """Has what a process before this one has shelved.

        Args:
            period: from one to the next (seconds); 0: there are none.
            shelf: takes each; None: the newest is lost with this process.
        """
        self._period, self._shelf = period, shelf
        shelved = shelf.get() if shelf is not None else None
        self.newest: State | None = shelved.state if shelved is not None else None
        # Of training, when it was taken.
        self.seconds = shelved.seconds if shelved is not None else 0.0
        self._earliest = self._due = 0.0
        self._pushed: collections.Counter[int] = collections.Counter()  # bytes since, by worker

    @property
    def safe(self) -> int:
        """Pushes of lower numbers need not be kept."""
        return standing.pushes(self.newest.log) if self.newest is not None else 0

    @property
    def is_due(self) -> bool:
        """Whether it is time for one: workers may have to let go of pushes."""
        if not self._period:
            return False
        now = time.perf_counter()
        is_full = max(self._pushed.values(), default=0) > MOST_BYTES / 2
        return now >= self._due or (is_full and now >= self._earliest)

    def heard(self, report: Report) -> None:
        """A worker has pushed."""
        self._pushed[int(report.worker)] += int(report.bytes_pushed)

    def lost(self) -> None:
        """A worker is gone, and with it what it has kept: the next one is due at once."""
        self._due = 0.0

    def save(self, checkpoints: Checkpoints) -> str:
        """Writes the newest as a checkpoint, as servers do not answer; on any thread.

        Returns:
            What was saved, for people; no text where it is no news, or cannot be written.
        """
        state = self.newest
        if state is None or state.counters.updates <= checkpoints.newest_updates:
            return ""
        try:
            checkpoints.save_newest(state, self.seconds)
        except OSError:
            return ""
        return f"saved what the parameter servers held at {int(state.counters.updates):,} updates"

    def take(self, store: ParameterStore, seconds: float) -> State:
        """Takes one now.

        Args:
            store: the parameter servers.
            seconds: of training so far.
        """
        started = time.perf_counter()
        state = store.state()
        if self._period and self._shelf is not None:
            self._shelf.put(state, seconds)  # before any worker lets go of what it has
        now = time.perf_counter()
        if self._period:
            self.newest, self.seconds = state, seconds
        self._pushed.clear()
        self._earliest = now + (now - started) / MOST_TIME
        self._due = max(now + self._period, self._earliest)
        return state
