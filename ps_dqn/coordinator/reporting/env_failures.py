"""Failures of environments, as reports tell of them: said, and too many end the run."""

import collections
from collections.abc import Callable

from ps_dqn.config.faults import FAILURE_WINDOW
from ps_dqn.telemetry.report import Report

# What is said of each kind of failure.
_WHAT = {
    "raised": "raised",
    "not_finite": "said what is not finite",
    "malformed": "said what is no observation or reward of theirs",
    "hung": "did not answer within --env_timeout",
    "vanished": "lost their processes",
}


class EnvFailures:
    """Counts, of each worker."""

    def __init__(
        self, most: int, say: Callable[[str], None], last_words: Callable[[int], str]
    ) -> None:
        """Has heard of none.

        Args:
            most: failures in `FAILURE_WINDOW` environment steps of a worker.
            say: shows people a line.
            last_words: what a worker's log says last.
        """
        self._most, self._say, self._last_words = most, say, last_words
        self._totals: collections.Counter[tuple[int, str]] = collections.Counter()
        self._steps: collections.Counter[int] = collections.Counter()  # of the window, by worker
        self._failures: collections.Counter[int] = collections.Counter()
        self.too_many = ""  # why the run must end

    def hear(self, report: Report) -> None:
        """Takes what a closure's report says."""
        worker = int(report.worker)
        for kind, failures in report.env_failures.items():
            if failures:
                self._count(worker, kind, int(failures))
        self._steps[worker] += int(report.env_steps)
        self._failures[worker] += int(sum(report.env_failures.values()))
        windows = max(self._steps[worker] / FAILURE_WINDOW, 1.0)
        failures, steps = self._failures[worker], self._steps[worker]
        if failures > self._most * windows and not self.too_many:
            self.too_many = (
                f"environments of worker {worker} failed {failures:,} times in {steps:,} steps, "
                f"more often than --max_env_failures={self._most} in {FAILURE_WINDOW:,} allows; "
                f"{self._last_words(worker)}"
            )
        if steps >= FAILURE_WINDOW:
            self._steps[worker] = self._failures[worker] = 0

    def _count(self, worker: int, kind: str, failures: int) -> None:
        """Says the first failure of a kind, and whenever there are ten times as many."""
        before = self._totals[worker, kind]
        now = self._totals[worker, kind] = before + failures
        if len(str(now)) > len(str(before)) or not before:
            times = "once" if now == 1 else f"{now:,} times so far"
            self._say(
                f"environments of worker {worker} {_WHAT[kind]} ({times}): no such step is "
                f"learned from; its log says more"
            )
