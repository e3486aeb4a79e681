"""How long a round waits for a worker that does not push: one may hang, or have been taken away."""

import math

from ps_dqn.telemetry import metrics
from ps_dqn.telemetry.report import Report

# As a multiple of what the slowest worker usually takes from one push to the next.
USUAL_TIMES = 3.0
# However quick the others are: a worker that was restarted has to begin again (seconds).
LEAST_SECONDS = 5.0
# While a worker has not pushed at all: it starts and compiles (seconds).
FIRST_SECONDS = 120.0


class Patience:
    """Learns from reports how long a push takes, and when a round waits in vain."""

    def __init__(self, num_workers: int):
        """Knows nothing of so many workers."""
        self._usual = dict.fromkeys(range(num_workers), math.nan)  # seconds for a push, by worker
        self._vain_since: float | None = None
        self.given_up: set[int] = set()  # workers that rounds go on without

    def hear(self, report: Report, now: float) -> bool:
        """Takes a report; whether its round is to go on without those that it waits for.

        Args:
            report: of a closure in rounds; one without a push has waited in vain.
            now: when it was heard (seconds).
        """
        worker = int(report.worker)
        if report.exchanges:
            work = math.fsum(getattr(report, f"time_{phase}") for phase in metrics.WORK)
            self._usual[worker] = work / report.exchanges
            self._vain_since = None
            return False
        if self._vain_since is None:
            self._vain_since = now
        return now - self._vain_since > self._limit()

    def give_up(self, workers: list[int]) -> list[int]:
        """Rounds go on without these; those of whom that is news."""
        news = sorted(set(workers) - self.given_up)
        self.given_up |= set(workers)
        self._vain_since = None
        return news

    def is_back(self, report: Report) -> bool:
        """Whether this is the first push of a worker that was given up."""
        worker = int(report.worker)
        if not report.exchanges or worker not in self.given_up:
            return False
        self.given_up.remove(worker)
        return True

    def _limit(self) -> float:
        """Seconds from the first report in vain."""
        waited_for = [
            seconds for worker, seconds in self._usual.items() if worker not in self.given_up
        ]
        if any(map(math.isnan, waited_for)):
            return FIRST_SECONDS
        return max(USUAL_TIMES * max(waited_for, default=0.0), LEAST_SECONDS)
