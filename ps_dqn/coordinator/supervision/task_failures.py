"""Tasks that failed: how often and how, how soon it was noticed, and how soon they worked again.

One that has failed and has not come back yet may be noticed in other ways too; that is the same
failure.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ps_dqn.cluster.spec import Task
from ps_dqn.telemetry.figures import TaskFailure

# How it shows: the connection ended; the server did not answer; a closure took too long.
LOST, SILENT, OVERDUE = "lost", "silent", "overdue"


class _Open(NamedTuple):
    """A failure whose task is not back."""

    kind: str
    noticed_at: float  # `time.monotonic()`
    is_lost: bool  # the connection has ended, however it was noticed


FailuresMemory = tuple[dict[tuple[Task, str], TaskFailure], dict[Task, _Open]]


class TaskFailures:
    """Counts them; its methods may be called on any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic):
        """Knows of none.

        Args:
            now: a clock (seconds).
        """
        self._now, self._lock = now, threading.Lock()
        self._open: dict[Task, _Open] = {}
        self._totals: dict[tuple[Task, str], TaskFailure] = {}

    def noticed(self, task: Task, kind: str, seconds: float = 0.0) -> None:
        """A task has failed.

        Args:
            task: which.
            kind: how it shows.
            seconds: from the last sign of it until now.
        """
        with self._lock:
            known = self._open.get(task)
            if known is None:
                known = _Open(kind, self._now(), False)
                self._add(task, kind, failures=1, detection_seconds=seconds)
            self._open[task] = known._replace(is_lost=known.is_lost or kind == LOST)

    def answers(self, task: Task) -> None:
        """Its server answers again: it is back, unless its connection had ended meanwhile."""
        with self._lock:
            if task in self._open and not self._open[task].is_lost:
                self._close(task)

    def work(self, tasks: Iterable[Task]) -> None:
        """These tasks do their work: they are back if they had failed."""
        with self._lock:
            for task in tasks:
                if task in self._open:
                    self._close(task)

    def rows(self) -> list[TaskFailure]:
        """Failures of each task, by kind."""
        with self._lock:
            return list(self._totals.values())

    def memory(self) -> FailuresMemory:
        """All of it, for another process of this machine."""
        with self._lock:
            return dict(self._totals), dict(self._open)

    def remember(self, memory: FailuresMemory) -> None:
        """Goes on from what another process knew."""
        with self._lock:
            totals, still_open = memory
            self._totals, self._open = dict(totals), dict(still_open)

    def _close(self, task: Task) -> None:
        kind, noticed_at, _ = self._open.pop(task)
        self._add(task, kind, recoveries=1, recovery_seconds=self._now() - noticed_at)

    def _add(self, task: Task, kind: str, **more: float) -> None:
        total = self._totals.get((task, kind), TaskFailure(str(task), kind))
        changed = {name: getattr(total, name) + value for name, value in more.items()}
        self._totals[task, kind] = dataclasses.replace(total, **changed)
