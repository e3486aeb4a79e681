"""A watchdog over tasks that are not there: what they do is said by a test."""

import time
import types
from typing import Any, NamedTuple

import pytest

from ps_dqn.cluster.pulse import Heard
from ps_dqn.cluster.spec import ClusterSpec, Placement, Task
from ps_dqn.config import Faults
from ps_dqn.coordinator.supervision.task_failures import TaskFailures
from ps_dqn.coordinator.supervision.watchdog import Watchdog

WORKER, PS = Task("worker", 1), Task("ps", 0)
SPEC = ClusterSpec("localhost:1", ("localhost:2",), ("localhost:3", "localhost:4"))


class Connections(NamedTuple):
    """Those to one task, which notes when they are cut."""

    task: Task
    cuts: list[str]

    def cut(self) -> None:
        self.cuts.append(SPEC.addresses(self.task.job)[self.task.index])

    def look_up(self) -> None:
        pass


class Watched:
    """A watchdog, what it says, whom it kills and whose connections it cuts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_local: bool, **options: Any):
        self.said: list[str] = []
        self.killed: list[Task] = []
        self.cut: list[str] = []
        self.starting: set[Task] = set()
        self.process = 1000
        self.closures: dict[int, float] = {}
        self.slowest: dict[int, float] = {}
        self.heard: dict[Task, Heard] = {}
        self.cluster: Any = types.SimpleNamespace(
            kill=self.killed.append,
            may_be_starting=lambda task, _: task in self.starting,
            pid=lambda _: self.process,
        )
        placement = Placement("local" if is_local else "remote", SPEC, "fork", 1, 2)
        self.failures = TaskFailures()
        self.watchdog = Watchdog(
            Faults(**options),
            placement,
            self.cluster if is_local else None,
            self.said.append,
            self.failures,
            lambda: "saved what there was",
            lambda: self.heard,
        )
        self.watchdog.peers = {task: Connections(task, self.cut) for task in SPEC.tasks()}
        self._in_flight: Any = types.SimpleNamespace(
            seconds=lambda: self.closures, slowest=self.slowest.get
        )

    def answers(self, **silent: float) -> None:
        """One look at the answers: for how long `ps` or `worker` have not answered."""
        names = {"ps": PS, "worker": WORKER}
        self.watchdog.look_at_answers({names[name]: each for name, each in silent.items()})

    def says(self, **pulse: float) -> None:
        """The worker says just now what it has made."""
        self.heard[WORKER] = Heard(time.monotonic(), pulse)

    def look(self) -> None:
        """One look at the closures."""
        self.watchdog.look_at_closures(self._in_flight)
