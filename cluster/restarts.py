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


_NONE = _Series(0, -math.inf)


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
        number, since = self._series.get(task, _NONE)
        return number >= RESTARTS_PER_TASK and self._worked_at <= since

    def pause(self, task: Task) -> float:
        """From one start to the next of one that has ended and is not given up (seconds)."""
        beyond = self._series.get(task, _NONE).number - RESTARTS_PER_TASK
        # No longer than the longest, however often it has ended by now.
        return 0.0 if beyond < 0 else min(FIRST_PAUSE * 2.0 ** min(beyond, 10), LONGEST_PAUSE)

    def count(self, task: Task) -> str:
        """It is started again: how often by now, for people."""
        before, since = self._series.get(task, _NONE)
        number = before + 1
        self._series[task] = _Series(number, since if before else time.monotonic())
        if number <= RESTARTS_PER_TASK:
            return f"started again ({number} of {RESTARTS_PER_TASK})"
        return f"started again (for the {number}th time without having worked; others work)"
