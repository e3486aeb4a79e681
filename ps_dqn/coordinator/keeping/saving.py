"""The checkpoints of a run: a newest now and then and at the end, and the best."""

import time
from collections.abc import Callable

import numpy as np

from ps_dqn.coordinator.keeping.snapshots import Snapshots
from ps_dqn.profiling import timeline
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.state import Counters, State
from ps_dqn.store import Store

# From one try to write a checkpoint to the next, where that fails (seconds).
RETRY_SECONDS = 5.0
_WHAT = "checkpoints"


class Saving:
    """Saves what the parameter servers hold."""

    def __init__(
        self,
        store: Store,
        checkpoints: Checkpoints,
        snapshots: Snapshots,
        disk: Disk,
        period: float,
    ) -> None:
        """Has saved nothing; knows what earlier sessions have.

        Args:
            store: of the run.
            checkpoints: where they are kept.
            snapshots: those in memory.
            disk: hears of writes that fail.
            period: from one newest checkpoint to the next (seconds).
        """
        self._store, self._checkpoints, self._disk = store, checkpoints, disk
        self.snapshots, self._period = snapshots, period
        newest = checkpoints.newest()
        self.best_return = checkpoints.best_return()
        self._unwritten: Callable[[], object] | None = None  # the best, where it is not on disk
        self.seconds_before = max(newest.seconds if newest else 0.0, snapshots.seconds)
        # A run that connects anew again and again saves as often as any other.
        left = max(period - checkpoints.age, min(period, RETRY_SECONDS))
        self._due = time.perf_counter() + left
        self._next_try = 0.0  # to write the best

    def now_and_then(self, seconds: float) -> bool:
        """Saves where it is time; whether it wrote. Takes the training so far (seconds)."""
        if self._unwritten is not None and time.perf_counter() > self._next_try:
            self._write_best()
        if time.perf_counter() < self._due:
            if self.snapshots.is_due:
                self.snapshots.take(self._store, seconds)
            return False
        is_saved = self.newest(seconds)
        self._due = time.perf_counter() + (self._period if is_saved else RETRY_SECONDS)
        return is_saved

    def best(
        self, counters: Counters, mean: float, seconds: float, network: np.ndarray | None = None
    ) -> None:
        """Saves what was evaluated, if it is as good as the best so far.

        Args:
            counters: when it was frozen.
            mean: return of the evaluation.
            seconds: training so far.
            network: what was frozen, float32 [P]; None: the store keeps it.
        """
        if mean < self.best_return:
            return
        network = self._store.frozen() if network is None else network
        state = State(network, network, network, (), counters)
        self.best_return = mean  # also where it has to wait: what is worse does not replace it
        self._unwritten = lambda: self._checkpoints.save_best(state, seconds, mean)
        self._write_best()

    def last(self, seconds: float) -> str:
        """Saves at the end of the run, in several tries; what went wrong, or an empty text."""
        with timeline.span("saving a checkpoint"):
            state = self.snapshots.take(self._store, seconds)
            why = self._disk.write_last(
                _WHAT, lambda: self._checkpoints.save_newest(state, seconds)
            )
        if why:
            return (
                f"the last checkpoint could not be written ({why}): --resume goes on from the one "
                f"before it"
            )
        if self._unwritten is not None and (why := self._disk.write_last(_WHAT, self._unwritten)):
            return f"the best checkpoint could not be written ({why}): there is the one before it"
        self._unwritten = None
        return ""

    def _write_best(self) -> None:
        with timeline.span("saving the best checkpoint"):
            if self._unwritten is not None and self._disk.write(_WHAT, self._unwritten):
                self._unwritten = None
        self._next_try = time.perf_counter() + RETRY_SECONDS

    def newest(self, seconds: float) -> bool:
        """Saves now; whether it wrote. Takes the training so far (seconds)."""
        with timeline.span("saving a checkpoint"):
            state = self.snapshots.take(self._store, seconds)
            return self._disk.write(_WHAT, lambda: self._checkpoints.save_newest(state, seconds))
