"""How often, and when, a task that keeps ending is started again."""

import math
import time
from typing import NamedTuple

from ps_dqn.cluster.spec import Task

# A task that has not worked in between is started again so often at once. Where others have worked
# meanwhile it is started again after that too, so long after it was started last, and twice as long
# each time (seconds).
RESTARTS_PER_TASK = 5
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0


class _Series(NamedTuple):
    """Of a task that has not worked in between."""

    number: int
    since: float  # the first one (`time.monotonic()`)


class Restarts:
    """Those of all tasks."""

    def __init__(self) -> None:
        """There was none yet."""
        self._series: dict[Task, _Series] = {}  # since each was last known to be well
        self._worked_at = -math.inf  # when any was

    def are_well(self, *tasks: Task) -> None:
        """Tasks do their work: each may be started again as often as at first."""
        self._worked_at = time.monotonic()
        for task in tasks:
            self._series.pop(task, None)

    def is_given_up(self, task: Task) -> bool:
        """Whether one that has ended is not started again: nothing works any more."""
        series = self._series.get(task)
        return self._is_long(series) and not self._others_work(series)

    def due(self, task: Task, started: float) -> float:
        """When one that has ended is to be started again (`time.monotonic()`).

        Args:
            task: which.
            started: when it was started last.
        """
        series = self._series.get(task)
        if series is None or not self._is_long(series):
            return started
        pause = FIRST_PAUSE * 2.0 ** (series.number - RESTARTS_PER_TASK)
        return started + min(pause, LONGEST_PAUSE)

    def count(self, task: Task) -> str:
        """It is started again: how often by now, for people."""
        number, since = self._series.get(task, _Series(0, time.monotonic()))
        number += 1
        self._series[task] = _Series(number, since)
        if number <= RESTARTS_PER_TASK:
            return f"started again ({number} of {RESTARTS_PER_TASK})"
        return f"started again (for the {number}th time without having worked; others work)"

    @staticmethod
    def _is_long(series: _Series | None) -> bool:
        return series is not None and series.number >= RESTARTS_PER_TASK

    def _others_work(self, series: _Series | None) -> bool:
        return series is not None and self._worked_at > series.since
