"""How many pushes a training closure makes: enough that its dispatch costs little.

Between two closures a worker waits for its coordinator, which hands them out one by one. How often
it has to is the number of workers over the length of a closure, so closures are long enough in
time, whatever a push costs. They are no longer than that: with each goes work that is lost with a
worker, and reports come at their ends.
"""

import collections
import math
import statistics

from ps_dqn.config import ParameterServer, scaling
from ps_dqn.telemetry.metrics import WORK
from ps_dqn.telemetry.report import Report

RECENT_REPORTS = 32  # that the next closure's length follows from


class ClosureLength:
    """The pushes of the next closure, by what recent ones took."""

    def __init__(self, options: ParameterServer, num_workers: int):
        """Has measured nothing yet.

        Args:
            options: say how many, or leave it to what is measured.
            num_workers: that the run is for.
        """
        self._options, self._num_workers = options, num_workers
        self._seconds: collections.deque[float] = collections.deque(maxlen=RECENT_REPORTS)
        self._dispatch: collections.deque[float] = collections.deque(maxlen=RECENT_REPORTS)

    @property
    def pushes(self) -> int:
        """Of the next closure, 1 or more."""
        # The median, as a worker's first closure may take many times as long: it compiles.
        if not self._seconds:
            return scaling.pushes_per_closure(self._options, self._num_workers, math.nan)
        seconds, dispatch = statistics.median(self._seconds), statistics.median(self._dispatch)
        return scaling.pushes_per_closure(self._options, self._num_workers, seconds, dispatch)

    def add(self, report: Report) -> None:
        """Measures a closure; one without a push says nothing."""
        if report.exchanges:
            work = math.fsum(getattr(report, f"time_{phase}") for phase in WORK)
            self._seconds.append(work / report.exchanges)
            self._dispatch.append(report.time_dispatch)
