"""How many pushes a training closure makes: enough that its dispatch costs little.

Between two closures a worker waits for its coordinator, which hands them out one by one. How often
it has to is the number of workers over the length of a closure, so closures are long enough in
time, whatever a push costs. They are no longer than that: with each goes work that is lost with a
worker, and reports come at their ends.
"""

import collections
import math
import statistics

from ps_dqn.config.run import CLOSURE_SECONDS, FIRST_PUSHES, MOST_PUSHES
from ps_dqn.telemetry.metrics import WORK
from ps_dqn.telemetry.report import Report

RECENT_REPORTS = 32  # that the next closure's length follows from


class ClosureLength:
    """The pushes of the next closure, by what recent ones took."""

    def __init__(self, pushes: int | None, num_workers: int):
        """Has measured nothing yet.

        Args:
            pushes: of every closure; None: by what is measured, unless there is one worker, as its
                run is to be the same each time.
            num_workers: that the run is for.
        """
        self._fixed = FIRST_PUSHES if pushes is None and num_workers == 1 else pushes
        self._seconds: collections.deque[float] = collections.deque(maxlen=RECENT_REPORTS)

    @property
    def pushes(self) -> int:
        """Of the next closure, 1 or more."""
        if self._fixed is not None:
            return self._fixed
        if not self._seconds:
            return FIRST_PUSHES
        # The median, as a worker's first closure may take many times as long: it compiles.
        seconds = statistics.median(self._seconds)
        if seconds * MOST_PUSHES <= CLOSURE_SECONDS:
            return MOST_PUSHES
        return math.ceil(CLOSURE_SECONDS / seconds)

    def add(self, report: Report) -> None:
        """Measures a closure; one without a push says nothing."""
        if report.exchanges:
            work = math.fsum(getattr(report, f"time_{phase}") for phase in WORK)
            self._seconds.append(work / report.exchanges)
