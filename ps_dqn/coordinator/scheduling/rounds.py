"""Whom rounds wait for, as the coordinator sees it: not for workers that are lost or hang."""

from collections.abc import Callable, Iterable

from ps_dqn.coordinator.scheduling.patience import Patience
from ps_dqn.store import Store
from ps_dqn.telemetry.report import Report


class Rounds:
    """Ends rounds that wait for a worker in vain, and says so (sync)."""

    def __init__(self, store: Store, num_workers: int, say: Callable[[str], None]):
        """Rounds wait for all workers.

        Args:
            store: of the run.
            num_workers: workers of the run.
            say: shows people a line.
        """
        self._store = store
        self._patience = Patience(num_workers)
        self._say = say

    def begin_without(self, workers: Iterable[int]) -> None:
        """These are not there yet, which people know."""
        for worker in workers:
            self._patience.give_up(self._store.go_on(worker))

    def heard(self, report: Report, now: float) -> None:
        """A closure has ended; its worker may have pushed, or waited in vain.

        Args:
            report: the closure's.
            now: when it was heard (seconds).
        """
        if self._patience.is_back(report):
            self._say(f"rounds wait for worker {report.worker:.0f} again: it pushes")
        if not report.exchanges:
            self._store.take_in(int(report.worker))
        if self._patience.hear(report, now):
            for worker in self._patience.give_up(self._store.go_on()):
                self._say(
                    f"worker {worker} has not pushed for long: rounds go on without it until it "
                    f"does"
                )

    def lost(self, worker: int) -> None:
        """A worker is gone; the others do not wait to see whether it comes back."""
        absent = self._store.go_on(worker)
        if worker in self._patience.give_up(absent):
            self._say(f"worker {worker} is lost: rounds go on without it until it pushes")
