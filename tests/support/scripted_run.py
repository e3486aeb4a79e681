"""A run without a cluster: its schedule answers at once, with evaluations of a test's choice."""

import collections
import pathlib
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from ps_dqn.config import Config
from ps_dqn.coordinator.keeping.course import Course
from ps_dqn.coordinator.keeping.saving import Saving
from ps_dqn.coordinator.keeping.snapshots import Snapshots
from ps_dqn.coordinator.loop import Training
from ps_dqn.coordinator.scheduling.dispatch import Outcome
from ps_dqn.coordinator.supervision.task_failures import TaskFailures
from ps_dqn.coordinator.supervision.tasks import Tasks
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.state import Counters, State
from ps_dqn.telemetry.display import PlainDisplay
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.observer import Observer
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.worker.calls import Tickets
from support import small
from support.reports import report

# What each closure adds to the run.
STEP = Counters(version=1, updates=10, env_steps=100, episodes=1, sequential_updates=10)


class ScriptedRun:
    """The store, the closures and the schedule of a run, as its loop sees them."""

    def __init__(self, evaluations: Iterable[Sequence[float]]):
        """Answers evaluations with these returns, one after the other."""
        self._evaluations = iter(evaluations)
        self._waiting: collections.deque[Outcome] = collections.deque()
        self._counters = Counters(0, 0, 0, 0, 0)
        self.num_evaluations = self._num_frozen = 0
        self.tickets: list[Tickets] = []  # of all training closures
        self.train = self.freeze = None
        self.session, self.is_busy = 1, True
        self.keeps_frozen, self.holder = True, "the script"

    # Of the closures.

    def evaluate(self, episodes: int, freeze: bool) -> bool:
        """A closure that nobody calls: whether it freezes."""
        return freeze

    # Of the schedule.

    def submit(self, kind: str, function: object, args: Sequence[Any] = (), **_: object) -> None:
        if kind == "train":
            self.tickets.append(Tickets(*map(int, args[0])))
        elif function:
            self._num_frozen += 1
        self._waiting.append(Outcome(kind, getattr(self, f"_{kind}")(), tuple(args)))

    def outstanding(self, kind: str) -> int:
        return sum(outcome.kind == kind for outcome in self._waiting)

    def next(self, timeout: float) -> Outcome | None:
        """One at a time: whoever does not wait gets none."""
        return self._waiting.popleft() if timeout else None

    def _train(self) -> np.ndarray:
        self._counters = Counters(*(sum(pair) for pair in zip(self._counters, STEP, strict=True)))
        run = {f"run_{name}": value for name, value in self._counters._asdict().items()}
        made = report(pushes=1, updates=STEP.updates, env_steps=STEP.env_steps, **run)
        return np.array(made)

    def _evaluation(self) -> tuple[np.ndarray, np.ndarray, bytes]:
        self.num_evaluations += 1
        return np.array(self._counters), np.array(next(self._evaluations)), b""

    # Of the parameter servers.

    def counters(self) -> Counters:
        return self._counters

    def state(self) -> State:
        return State(self.frozen(), self.frozen(), self.frozen(), (), self._counters)

    def frozen(self) -> np.ndarray:
        """Parameters that say how many were frozen before, themselves included."""
        return np.full(3, self._num_frozen, np.float32)

    def is_newest(self, frozen: object) -> bool:
        """Every worker has what the others have."""
        return True

    def ledgers(self) -> list[dict[str, Any]]:
        return [{"bytes_in": 1, "bytes_out": 1, "staleness": {}}]


class LateRun(ScriptedRun):
    """Whenever its coordinator waits for news, all that was on its way by then has ended."""

    unheard = 0  # of what had ended when it began to listen

    def next(self, timeout: float) -> Outcome | None:
        if timeout:
            self.unheard = len(self._waiting)
        if not self.unheard:
            return None
        self.unheard -= 1
        return self._waiting.popleft()


def training(
    config: Config,
    target_return: float,
    scripted: ScriptedRun,
    folder: pathlib.Path,
    num_workers: int = 1,
    course: Course | None = None,
) -> Training:
    """The loop over such a run; checkpoints are left in the folder."""
    names = ("add", "add_workers", "add_staleness", "flush")
    writers: Any = types.SimpleNamespace(**dict.fromkeys(names, lambda *_: None))
    vitals = Vitals(RunFigures.planned(config, num_workers))
    display = PlainDisplay(Console(quiet=True), 60.0)
    observer = Observer(vitals, display, writers, Disk(print))
    parts: list[Any] = [scripted, small.no_replay_servers(config), scripted, scripted]
    store: Any = scripted
    period = config.run.checkpoint_period
    saving = Saving(store, Checkpoints(folder, keep=1), Snapshots(0.0), observer.disk, period)
    tasks = Tasks(num_workers, None, TaskFailures())
    watched: list[Any] = [tasks, saving, observer]
    return Training(config, target_return, *parts, *watched, course=course)
