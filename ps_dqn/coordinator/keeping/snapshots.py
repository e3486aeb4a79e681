"""The newest snapshot of the parameter servers, in the coordinator's memory."""

import collections
import dataclasses
import time

from ps_dqn.config import Precision
from ps_dqn.parameter_server import standing
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.shelf import Shelf
from ps_dqn.state import State
from ps_dqn.store import Store
from ps_dqn.telemetry.report import Report
from ps_dqn.worker.pushes.kept_pushes import MOST_BYTES

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
        # Loss scales, by worker; of those that have not reported, what they begin with.
        self._loss_scales: dict[int, int] = {}
        self._first_loss_scale = 0

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
        worker = int(report.worker)
        self._pushed[worker] += int(report.bytes_pushed)
        if report.updates and report.loss_scale > 0:  # not NaN: who only acts follows none
            self._loss_scales[worker] = int(report.loss_scale)

    def first_loss_scale(self, precision: Precision, *states: State | None) -> int:
        """What workers begin with that have no loss scale; 0 where none is needed.

        Args:
            precision: says what a run begins with.
            states: that it goes on from, the first that knows of one.
        """
        known = [state.loss_scale for state in states if state is not None and state.loss_scale]
        first = [*known, precision.initial_loss_scale][0]
        self._first_loss_scale = first if precision.scales_loss else 0
        return self._first_loss_scale

    def lost(self) -> None:
        """A worker is gone, and with it what it has kept: the next one is due at once."""
        self._due = 0.0

    def save(self, checkpoints: Checkpoints) -> str:
        """Writes the newest as a checkpoint, as servers do not answer; on any thread.

        Returns:
            What was saved, for people; no text where it is no news, or cannot be written.
        """
        state = self.newest
        try:
            if state is None or not checkpoints.save_newer(state, self.seconds):
                return ""
        except OSError:
            return ""
        updates = int(state.counters.updates)
        return f"saved what the parameter servers held at {updates:,} updates"

    def take(self, store: Store, seconds: float) -> State:
        """Takes one now.

        Args:
            store: of the run.
            seconds: of training so far.
        """
        started = time.perf_counter()
        scale = min(self._loss_scales.values(), default=self._first_loss_scale)
        state = dataclasses.replace(store.state(), loss_scale=scale)
        if self._period and self._shelf is not None:
            self._shelf.put(state, seconds)  # before any worker lets go of what it has
        now = time.perf_counter()
        if self._period:
            self.newest, self.seconds = state, seconds
        self._pushed.clear()
        self._earliest = now + (now - started) / MOST_TIME
        self._due = max(now + self._period, self._earliest)
        return state
