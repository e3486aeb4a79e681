"""The coordinator's loop: keeps closures outstanding, evaluates, saves, and knows when to stop.

Decisions follow from reports, one by one, never from the clock: with one worker they come in the
order of scheduling, so the same seed gives the same run.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ps_dqn.config import Config
from ps_dqn.coordinator.evaluating.films import Films
from ps_dqn.coordinator.evaluating.greedy_play import Evaluations
from ps_dqn.coordinator.evaluating.judging import Judging
from ps_dqn.coordinator.keeping.course import Course
from ps_dqn.coordinator.keeping.saving import Saving
from ps_dqn.coordinator.reporting.cautions import Cautions
from ps_dqn.coordinator.reporting.env_failures import EnvFailures
from ps_dqn.coordinator.reporting.overview import Overview
from ps_dqn.coordinator.reporting.resets import ToldResets
from ps_dqn.coordinator.reporting.result import Result
from ps_dqn.coordinator.scheduling.dispatch import LOST, Outcome, Schedule
from ps_dqn.coordinator.scheduling.last_closures import LastClosures
from ps_dqn.coordinator.scheduling.last_waits import LastWaits
from ps_dqn.coordinator.scheduling.rounds import Rounds
from ps_dqn.coordinator.scheduling.window import Window
from ps_dqn.coordinator.supervision.tasks import Tasks
from ps_dqn.errors import WorkerError
from ps_dqn.profiling import timeline
from ps_dqn.replay_server.store import ReplayStore
from ps_dqn.run.signals import STOPPED
from ps_dqn.state import Counters
from ps_dqn.store import Frozen, Store
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.observer import Observer
from ps_dqn.telemetry.progress import Interval, Progress
from ps_dqn.telemetry.report import Report
from ps_dqn.wire import failures
from ps_dqn.worker.calls import Tickets
from ps_dqn.worker.graph.closures import Closures, read_report

Ledgers: TypeAlias = list[dict[str, Any]]
# Tasks are looked after and the display is refreshed this often (seconds).
TICK_SECONDS = 0.25


class Training:
    """One run, from its first closure to its last."""

    def __init__(
        self,
        config: Config,
        target_return: float,
        store: Store,
        replay: ReplayStore,
        closures: Closures,
        schedule: Schedule,
        tasks: Tasks,
        saving: Saving,
        observer: Observer,
        first_ticket: int = 1,
        films: Films | None = None,
        hear_updates: Callable[[int], None] = lambda _: None,
        course: Course | None = None,
    ):
        self._config, self._target_return = config, target_return
        self._store, self._replay = store, replay
        self._closures, self._schedule, self._tasks = closures, schedule, tasks
        self._saving, self._observer = saving, observer
        self._films, self._hear_updates = films, hear_updates
        self._reason, self._waits = "", LastWaits(config.faults.drain_timeout)
        self._state = "training"  # one of `figures.STATES`
        self._progress = Progress(Counters(0, 0, 0, 0, 0))
        self._evaluations = Evaluations(config.run, closures, schedule)
        self._course = course or Course(config.run)
        judged = self._evaluations, saving, observer, self._course
        self._judging = Judging(config, target_return, *judged)
        waiting = self._evaluations, self._waits, observer
        self._last_closures = LastClosures(schedule, *waiting, self._hear)
        self._closures_lost = 0
        self._cautions = Cautions(config, observer.say)
        self._resets = ToldResets(config.resets, observer.say)
        most = config.faults.max_env_failures
        self._env_failures = EnvFailures(most, observer.say, tasks.last_words)
        self._rounds = Rounds(store, tasks.num_workers, observer.say)
        self._window = Window(config, tasks.num_workers, first_ticket)
        shown = (store.session, tasks, saving, observer)
        self._overview = Overview(config, target_return, *shown)

    @property
    def seconds(self) -> float:
        """Of training, earlier sessions included."""
        return self._saving.seconds_before + time.perf_counter() - self._started

    @property
    def is_over(self) -> bool:
        """Whether it has come to its end, rather than been stopped or lost."""
        return self._reason in ("solved", "finished")

    def request_stop(self) -> None:
        """Ends the run soon, with a checkpoint; may be called from a signal handler."""
        self._waits.stop()

    def run(self) -> Result:
        """Trains until something ends it, and leaves a newest checkpoint.

        Raises:
            WorkerError: hosted Python raised.
            ClusterLostError: a task that cannot be replaced is gone.
        """
        self._started = self._ticked = time.perf_counter()
        counters = self._store.counters()
        session = self._course.begin(counters, self.seconds)
        self._progress = Progress(counters, self.seconds, session)
        self._observer.begin(self._replay.ledgers(), self.seconds)
        self._hear_updates(counters.updates)
        self._observer.saved()
        self._observer.show(self._figures())
        self._rounds.begin_without(self._tasks.absent)
        timeline.instant("first closure scheduled")
        while not self._over():
            self._fill_window()
            if self._tasks.workers_reporting:  # before, the first closure would wait for it
                self._evaluations.prepare()
            self._hear()
        timeline.instant("end of training")
        self._state = "stopping"
        self._observer.show(self._figures())
        with timeline.span("draining closures"):
            if self._reason == STOPPED or self._config.has_pace:
                self._store.halt()  # nobody waits for a round that will not be completed
            self._last_closures.drain()
            if self._progress.interval.ledger.num_reports:
                self._write_train_row(self._store.ledgers(), self._replay.ledgers())
        error = self._saving.last(self.seconds)
        if self._reason == "finished" and not self._judging.is_of(self._progress.counters):
            self._evaluate_finally()
            error = self._saving.last(self.seconds)  # closures may have ended meanwhile
        with timeline.span("asking servers for their ledgers"):
            return Result(
                self._reason,
                [each for each in (self._env_failures.too_many, error) if each],
                self.seconds,
                self._store.counters(),
                self._judging.last,
                self._saving.best_return,
                self._progress.session.ledger.rows(),
                self._store.ledgers(),
                self._replay.ledgers(),
            )

    def _fill_window(self) -> None:
        """Schedules as many training closures as may be on their way."""
        left = self._config.run.total_env_steps - self._progress.counters.env_steps
        while self._window.has_room(left):
            tickets = self._window.open(self._saving.snapshots.safe, self._tasks.others)
            self._schedule.submit("train", self._closures.train, [np.array(tickets, np.int64)])

    def _hear(self) -> None:
        """Waits for what has ended, and hears all of it before anything is shown."""
        first = self._schedule.next(TICK_SECONDS)
        ended = [] if first is None else [first, *iter(lambda: self._schedule.next(0.0), None)]
        for outcome in ended:
            self._take(outcome)
            # After each, so that closures have the same order however late this looks.
            if self._state == "training" and not self._over():
                self._fill_window()
        if time.perf_counter() - self._ticked > TICK_SECONDS:
            self._tick()

    def _take(self, outcome: Outcome) -> None:
        handlers: dict[str, Callable[[Any], None]] = {
            "train": self._on_report,
            "freeze": self._on_frozen,
            "evaluation": self._on_evaluation,
            LOST: self._on_loss,
        }
        if outcome.kind == "train":
            self._window.close(Tickets(*map(int, outcome.args[0])).first)
        handlers[outcome.kind](outcome.value)

    def _on_report(self, value: np.ndarray | None) -> None:
        if value is None:
            self._closures_lost += 1
            return self._count_afresh()
        vector, error = read_report(value)
        self._check(error)
        report = Report.decode(vector)
        self._progress.add(report)
        if report.updates:
            timeline.instant("first report of an update")
        self._hear_updates(self._progress.counters.updates)
        self._window.measure(report)
        self._saving.snapshots.heard(report)
        self._tasks.reported(int(report.worker), int(report.actors), int(report.absent_actor))
        self._cautions.hear(report)
        self._resets.hear(report.counters)
        self._env_failures.hear(report)
        if not self._reason:
            if not report.exchanges:
                self._count_afresh()  # a worker may have died half-way through a push
            self._rounds.heard(report, time.perf_counter())
        env_steps = self._progress.counters.env_steps
        if self._course.writes(env_steps):
            self._write_train_row(self._store.ledgers(), self._replay.ledgers())
        is_free = not (self._reason or self._evaluations.is_running)
        if is_free and self._course.evaluates(env_steps):
            self._evaluations.start(env_steps)

    def _on_loss(self, worker: int) -> None:
        """A worker is gone; its closure is another's by now."""
        self._tasks.lost(worker)
        self._saving.snapshots.lost()
        if self._config.parameter_server.is_synchronous and not self._reason:
            self._count_afresh()  # half of a push may have been made
            self._rounds.lost(worker)

    def _check(self, error: Any) -> None:
        """Raises what a task's Python raised; a parameter server's own words come first."""
        try:
            failures.check_error(error)
        except WorkerError:
            cause = self._store.errors() or self._replay.errors()
            if cause:
                raise WorkerError(f"Python hosted in a task failed:\n{cause}") from None
            raise

    def _count_afresh(self) -> None:
        """After a report was lost with its worker: completes and counts what it has pushed."""
        self._store.catch_up()
        self._progress.counters = self._store.counters()

    def _on_frozen(self, value: Sequence[np.ndarray]) -> None:
        frozen = Frozen(*value)
        if not self._store.is_newest(frozen):  # the worker was away, or was started again
            self._store.take_in(int(frozen.worker))
            return self._evaluations.freeze()
        self._check("" if frozen.counters.size else f"{self._store.holder} failed")
        self._evaluations.on_frozen(frozen)

    def _on_evaluation(self, value: tuple[np.ndarray, np.ndarray, object]) -> None:
        counters, returns, error = value
        self._check(error if counters.size else f"{self._store.holder} failed")
        self._judging.hear(counters, returns, self.seconds)

    def _over(self) -> bool:
        if self._env_failures.too_many:
            self._waits.stop()
        if self._waits.is_stopped:
            self._reason = STOPPED
        elif self._judging.is_solved:
            self._reason = "solved"
        elif self._progress.counters.env_steps >= self._config.run.total_env_steps:
            self._reason = "finished"
        return bool(self._reason)

    def lose(self) -> None:
        """The connection is lost: what was heard is written, and counts in the next one."""
        if self._progress.interval.ledger.num_reports:
            self._write_train_row([], [])  # servers may not answer
        if self._evaluations.is_running:
            self._course.evaluation_lost(self._evaluations.confirms)

    def _evaluate_finally(self) -> None:
        """Evaluates the last parameters, or says why it does not."""
        if not self._waits.is_stopped:
            self._last_closures.evaluate(self._progress.counters.env_steps)
        if self._waits.is_stopped and not self._judging.is_of(self._progress.counters):
            self._reason = STOPPED  # it is over once this was done
            self._observer.say("the final evaluation was cut off: the same run, resumed, plays it")
        elif self._evaluations.is_running:
            self._observer.say("the final evaluation is given up: no worker plays it")

    def _write_train_row(self, servers: Ledgers, replay_servers: Ledgers) -> None:
        now = self.seconds
        self._observer.trained(self._progress, servers, now, replay_servers)
        self._progress.interval = Interval(now)

    def _tick(self) -> None:
        """What depends on the clock: shows, looks after tasks, saves."""
        self._ticked = time.perf_counter()
        # At first, for the others take their time: rates are of all that was heard until now.
        self._observer.show(self._figures())
        if self.seconds - self._progress.recent.started > self._observer.moments:
            self._progress.recent = Interval(self.seconds)
        for line in self._tasks.check():
            self._observer.say(line)
        if self._saving.now_and_then(self.seconds):
            self._observer.saved()
        if self._films is not None:
            env_steps = self._progress.counters.env_steps
            self._films.look(env_steps, lambda: self._saving.newest(self.seconds))

    def _figures(self) -> RunFigures:
        """The run as it is now."""
        shown = self._progress, self._judging.last, self._closures_lost, self.seconds
        return self._overview.figures(self._state, *shown)
