"""A sweep from its first run to its last."""

import collections
import dataclasses
import math
import pathlib
import signal
import time
from collections.abc import Callable

from ps_dqn.cluster.ending import ENDING, Requests
from ps_dqn.errors import UsageError
from ps_dqn.run import disk
from ps_dqn.sweep import trial as trials
from ps_dqn.sweep.board import Board
from ps_dqn.sweep.search import Search
from ps_dqn.sweep.space import Point, label
from ps_dqn.sweep.trial import Running, Trial
from ps_dqn.telemetry import measured

# Runs are looked at this often (seconds).
POLL_SECONDS = 0.2
# Runs that were asked to end twice are gone after so long (seconds).
LAST_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a sweep does, whatever it finds."""

    folder: pathlib.Path
    seeds: range
    total: int  # runs
    jobs: int  # of them at a time
    metric: str
    # A point's flagfile; raises UsageError where it cannot be run.
    flags_of: Callable[[Point], str]


class Sweep:
    """Runs what a search asks for, several at a time; a signal ends them in good order."""

    def __init__(self, plan: Plan, search: Search, board: Board):
        self._plan, self._search, self._board = plan, search, board
        self._waiting: collections.deque[Trial] = collections.deque()
        self._running: list[Running] = []
        self._open: dict[Point, list[Trial]] = {}  # of points: their runs that are not over
        self._failed_points: set[Point] = set()
        self._asked = collections.Counter[Point]()  # how often the search waits for a score
        self._scores: dict[Point, float | None] = {}
        self._flagfiles: dict[Point, str] = {}  # what they say
        self._signals: list[int] = []
        self._requests = Requests()
        self.ended: list[Trial] = []
        self.failed: list[Trial] = []
        self.interrupted: list[Trial] = []

    @property
    def received(self) -> int:
        """The first signal; 0: none came."""
        return self._signals[0] if self._signals else 0

    def run(self) -> None:
        """Runs them all, or until a signal comes."""
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._hear)
        asked = 0
        try:
            while True:
                if not self._signals:
                    self._fill()
                if not self._running:
                    return
                if len(self._signals) > asked:
                    asked = len(self._signals)
                    self._ask_to_end(asked)
                self._look()
                over = len(self.ended) + len(self.failed)
                self._board.show(self._running, over, self._plan.total)
                time.sleep(POLL_SECONDS)
        finally:
            for each in self._running:
                each.kill()
            self._board.close()

    def _hear(self, number: int, _: object) -> None:
        if self._requests.is_another():
            self._signals.append(number)

    def _fill(self) -> None:
        """Starts runs while there is room."""
        while len(self._running) < self._plan.jobs:
            if not self._waiting and not self._ask():
                return
            trial = self._waiting.popleft()
            if trial.has_ended:
                self._board.say(f"has ended before: {trial.label}")
                self._over(trial, self.ended)
                continue
            verb = "goes on" if trial.folder.exists() else "begins"
            self._board.say(f"{verb}: {trial.label}")
            try:
                self._running.append(Running(trial, self._flagfiles[trial.point]))
            except OSError as error:
                self._board.say(f"failed: {trial.label}: {trial.folder}: {disk.reason(error)}")
                self._failed_points.add(trial.point)
                self._over(trial, self.failed)

    def _ask(self) -> bool:
        """Takes another point; False where there is none."""
        while (point := self._search.ask()) is not None:
            try:
                self._flagfiles[point] = self._plan.flags_of(point)
            except UsageError as error:  # beyond what could be checked before
                self._board.say(f"left out: {label(point)}: {error}")
                self._search.tell(point, None)
                continue
            self._asked[point] += 1
            if point in self._scores:
                self._tell(point)
            if point in self._scores or point in self._open:
                continue  # a search may come back to a point
            found = [trials.of(point, seed, self._plan.folder) for seed in self._plan.seeds]
            self._open[point] = list(found)
            self._waiting.extend(found)
            return True
        return False

    def _look(self) -> None:
        """Takes what has ended."""
        for each in list(self._running):
            outcome = each.outcome()
            if not outcome:
                continue
            self._running.remove(each)
            trial = each.trial
            if outcome == trials.ENDED:
                run = measured.read(trial.folder)
                self._board.say(
                    f"{run.reason}: {trial.label}: {self._plan.metric} "
                    f"{run.last(self._plan.metric):,.4g} after {run.last('env_steps'):,.0f} env "
                    f"steps, {run.last('seconds'):,.0f} s"
                )
                self._over(trial, self.ended)
            elif outcome == trials.INTERRUPTED or self._signals:
                self._board.say(f"interrupted: {trial.label}")
                self.interrupted.append(trial)
            else:
                self._board.say(f"failed: {trial.label}: {trial.last_line()}; see {trial.output}")
                self._failed_points.add(trial.point)
                self._over(trial, self.failed)

    def _over(self, trial: Trial, where: list[Trial]) -> None:
        """A run is over for good; where it was the last of its point, the search hears of it."""
        where.append(trial)
        self._open[trial.point].remove(trial)
        if not self._open[trial.point]:
            del self._open[trial.point]
            failed = trial.point in self._failed_points
            self._scores[trial.point] = None if failed else self._score(trial.point)
            self._tell(trial.point)

    def _tell(self, point: Point) -> None:
        """The search hears of a score, as often as it has asked."""
        for _ in range(self._asked.pop(point)):
            self._search.tell(point, self._scores[point])

    def _score(self, point: Point) -> float | None:
        """The interquartile mean of a point's runs; None where one has not measured it."""
        import numpy as np

        from ps_dqn.plot import interquartile

        folders = [each.folder for each in self.ended if each.point == point]
        last = [measured.read(folder).last(self._plan.metric) for folder in folders]
        mean = float(interquartile.mean(np.array(last)))
        return mean if math.isfinite(mean) else None

    def _ask_to_end(self, times: int) -> None:
        """Asks all runs; whoever is asked twice is gone soon."""
        for each in self._running:
            each.ask_to_end()
        if times == 1:
            self._board.say(
                f"stopping: {len(self._running)} runs save themselves; the same command goes on "
                f"with them"
            )
            return
        deadline = time.monotonic() + LAST_SECONDS
        while any(not each.outcome() for each in self._running) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        for each in self._running:
            each.kill()
