"""The coordinator's loop: keeps closures outstanding, evaluates, saves, and knows when to stop.

Decisions follow from reports, one by one, never from the clock: with one worker they come in the
order of scheduling, so the same seed gives the same run.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.coordinator.dispatch import Schedule
from ps_dqn.coordinator.greedy_play import Evaluation, Evaluations
from ps_dqn.errors import WorkerError
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.signals import STOPPED
from ps_dqn.state import Counters, State
from ps_dqn.telemetry import ledger, metrics
from ps_dqn.telemetry.display import Display, Status
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.telemetry.writers import Writers
from ps_dqn.wire import failures
from ps_dqn.wire.report import Report
from ps_dqn.worker.closures import Closures

# Evaluations in a row that must reach the target return: one may be luck.
EVALUATIONS_HELD = 3
# Tasks are looked after and the display is refreshed this often (seconds).
TICK_SECONDS = 0.25
# A stopped run waits this long for its closures (seconds): where everything is stopped at once,
# their workers are gone.
DRAIN_SECONDS = 10.0
# A worker is alive while it has reported within this time (seconds), where nothing better is known.
REPORT_SECONDS = 30.0


@dataclasses.dataclass
class Tasks:
    """What the loop needs to know of the cluster's tasks."""

    num_workers: int
    check: Callable[[], list[str]]  # raises where the run cannot go on; else lines for people
    workers_alive: Callable[[], int] | None  # None: judged from reports


@dataclasses.dataclass
class Result:
    """How a run ended."""

    reason: str  # "solved", "finished" or "stopped"
    seconds: float  # of training, earlier sessions of a resumed run included
    counters: Counters
    evaluation: Evaluation | None  # the last one
    best_return: float
    workers: dict[int, dict[str, float]]  # `WorkerLedger.rows`, this session
    servers: list[dict[str, Any]]  # `ServerLedger.as_dict` of each, this session


class Training:
    """One run, from its first closure to its last."""

    def __init__(
        self,
        config: Config,
        target_return: float,
        store: ParameterStore,
        closures: Closures,
        schedule: Schedule,
        tasks: Tasks,
        checkpoints: Checkpoints,
        writers: Writers,
        display: Display,
        vitals: Vitals,
    ):
        self._config = config
        self._target_return = target_return
        self._store = store
        self._closures = closures
        self._schedule = schedule
        self._tasks = tasks
        self._checkpoints = checkpoints
        self._writers = writers
        self._display = display
        self._vitals = vitals
        self._stop_asked = False
        self._reason = ""
        self._progress = metrics.Progress(store.counters())
        self._evaluation: Evaluation | None = None
        self._evaluations = Evaluations(config.run, closures, schedule)
        self._held = 0
        best, newest = checkpoints.best(), checkpoints.newest()
        self._best_return = best.eval_return if best else -math.inf
        self._seconds_before = newest.seconds if newest else 0.0
        self._last_reports: dict[int, float] = {}
        self._warned = False
        self._closures_lost = 0
        self._next_ticket = 1
        self._tickets: list[int] = []  # of closures that have not ended, in order

    def ask_to_stop(self) -> None:
        """Ends the run soon, with a checkpoint; may be called from a signal handler."""
        self._stop_asked = True

    def run(self) -> Result:
        """Trains until something ends it, and leaves a newest checkpoint.

        Raises:
            WorkerError: hosted Python raised.
            ClusterLostError: a task that cannot be replaced is gone.
        """
        self._started = self._ticked = self._saved = time.perf_counter()
        self._vitals.enter("training")
        self._vitals.saved()
        self._interval = metrics.Interval(self._seconds())
        self._recent = metrics.Interval(self._seconds())
        env_steps = self._progress.counters.env_steps
        self._next_row = env_steps + self._config.run.metrics_period
        self._next_evaluation = env_steps + self._config.run.eval_period
        while not self._over():
            self._advance()
        self._vitals.enter("stopping")
        self._drain()
        if self._reason == "finished":
            self._evaluate_finally()
        self._checkpoints.save_newest(self._store.state(), self._seconds())
        return Result(
            self._reason,
            self._seconds(),
            self._store.counters(),
            self._evaluation,
            self._best_return,
            self._progress.ledger.rows(),
            self._store.ledgers(),
        )

    def _advance(self) -> None:
        """Fills the window of outstanding closures, then hears one result."""
        while self._room_for_another():
            self._submit_training()
        self._hear()

    def _submit_training(self) -> None:
        """Schedules a training closure with tickets of its own, one for each of its pushes."""
        ticket = self._next_ticket
        self._next_ticket += self._config.parameter_server.pushes_per_closure
        self._tickets.append(ticket)
        tickets = np.array([ticket, self._tickets[0]], np.int64)
        self._schedule.submit("train", self._closures.train, [tickets])

    def _room_for_another(self) -> bool:
        """Whether a closure more fits the window, and the steps that are left to make."""
        outstanding = self._schedule.outstanding("train")
        shape = self._config.parameter_server
        if outstanding >= self._tasks.num_workers * shape.closures_per_worker:
            return False
        if shape.is_synchronous:
            return True  # a round needs every worker; the parameter servers know when it is over
        left = self._config.run.total_env_steps - self._progress.counters.env_steps
        return outstanding * self._config.env_steps_per_closure < left

    def _hear(self) -> None:
        outcome = self._schedule.next(TICK_SECONDS)
        if outcome is not None:
            handlers: dict[str, Callable[[Any], None]] = {
                "train": self._on_report,
                "freeze": self._on_frozen,
                "evaluation": self._on_evaluation,
            }
            if outcome.kind == "train":
                self._tickets.remove(int(outcome.args[0][0]))
            handlers[outcome.kind](outcome.value)
        if time.perf_counter() - self._ticked > TICK_SECONDS:
            self._tick()

    def _on_report(self, value: tuple[np.ndarray, object] | None) -> None:
        if value is None:
            self._closures_lost += 1
            self._count_afresh()
            return
        vector, error = value
        self._check(error)
        report = Report.decode(vector)
        self._progress.add(report)
        self._interval.reports.append(report)
        self._recent.reports.append(report)
        self._last_reports[int(report.worker)] = time.perf_counter()
        self._warn(report)
        if not report.exchanges and not self._reason:
            # It waited in vain for others (sync): one may have died half-way through a push.
            self._count_afresh()
        env_steps = self._progress.counters.env_steps
        if env_steps >= self._next_row:
            self._write_train_row()
            self._next_row = env_steps + self._config.run.metrics_period
        due = env_steps >= self._next_evaluation
        if (
            due and not self._evaluations.is_running and not self._reason
        ):  # nothing new while draining
            self._evaluations.start(env_steps)
            self._next_evaluation = env_steps + self._config.run.eval_period

    def _warn(self, report: Report) -> None:
        """Says once that learning has gone wrong."""
        if report.withheld_not_finite and not self._warned:
            self._warned = True
            self._display.say(
                f"worker {report.worker:.0f} keeps back pushes that are not finite: look at the "
                f"environment's rewards and at --learning_rate"
            )

    def _check(self, error: Any) -> None:
        """Raises what a task's Python raised; a parameter server's own words come first."""
        try:
            failures.check_error(error)
        except WorkerError:
            cause = self._store.errors()
            if cause:
                raise WorkerError(f"Python hosted in a task failed:\n{cause}") from None
            raise

    def _count_afresh(self) -> None:
        """After a report was lost with its worker: completes and counts what it has pushed."""
        self._store.catch_up()
        self._progress.counters = self._store.counters()

    def _on_frozen(self, counters: np.ndarray) -> None:
        self._check("" if counters.size else "a parameter server failed")
        self._evaluations.on_frozen(counters)

    def _on_evaluation(self, value: tuple[np.ndarray, np.ndarray, object]) -> None:
        counters, returns, error = value
        self._check(error if counters.size else "a parameter server failed")
        evaluation = self._evaluations.on_part(counters, returns)
        if evaluation is None:
            return
        self._evaluation = evaluation
        mean = float(evaluation.returns.mean())
        self._writers.write(
            evaluation.counters, metrics.evaluation_row(evaluation.returns, self._seconds())
        )
        self._held = self._held + 1 if mean >= self._target_return else 0
        if mean >= self._best_return:
            self._best_return = mean
            network = self._store.frozen()
            state = State(network, network, network, (), evaluation.counters)
            self._checkpoints.save_best(state, self._seconds(), mean)

    def _over(self) -> bool:
        if self._stop_asked:
            self._reason = STOPPED
        elif self._held >= EVALUATIONS_HELD:
            self._reason = "solved"
        elif self._progress.counters.env_steps >= self._config.run.total_env_steps:
            self._reason = "finished"
        return bool(self._reason)

    def _drain(self) -> None:
        """Hears what is outstanding, so that counters and checkpoint agree."""
        if self._reason == STOPPED or self._config.parameter_server.is_synchronous:
            self._store.halt()  # nobody waits for a round that will not be completed
        deadline = time.perf_counter() + (DRAIN_SECONDS if self._reason == STOPPED else math.inf)
        kinds = ("train", "freeze", "evaluation")
        while any(map(self._schedule.outstanding, kinds)) and time.perf_counter() < deadline:
            self._hear()
        if self._interval.reports:
            self._write_train_row()

    def _evaluate_finally(self) -> None:
        """Judges the last parameters, unless the last evaluation has just done it."""
        counters = self._progress.counters
        if self._evaluation is not None and self._evaluation.counters == counters:
            return
        self._evaluations.start(counters.env_steps)
        while self._evaluations.is_running:
            self._hear()

    def _write_train_row(self) -> None:
        now = self._seconds()
        servers = self._store.ledgers()
        row = self._progress.train_row(self._interval, now, ledger.balance(servers))
        self._writers.write(self._progress.counters, row)
        self._writers.write_workers(self._progress.counters, self._interval.workers())
        self._writers.write_staleness(self._progress.counters, servers[0]["staleness"])
        self._interval = metrics.Interval(now)

    def _tick(self) -> None:
        """What depends on the clock: looks after tasks, saves, shows."""
        now = self._ticked = time.perf_counter()
        for line in self._tasks.check():
            self._display.say(line)
        if now - self._saved > self._config.run.checkpoint_period:
            self._checkpoints.save_newest(self._store.state(), self._seconds())
            self._vitals.saved()
            self._saved = now
        if self._recent.reports:
            self._display.show(self._status())
        self._show_vitals()
        if self._seconds() - self._recent.started > max(1.0, self._display.interval):
            self._recent = metrics.Interval(self._seconds())

    def _show_vitals(self) -> None:
        self._vitals.show(
            self._progress,
            self._recent,
            float(self._evaluation.returns.mean()) if self._evaluation else math.nan,
            self._best_return,
            self._workers_alive(),
            self._closures_lost,
        )

    def _status(self) -> Status:
        recent, counters = self._recent, self._progress.counters
        elapsed = max(self._seconds() - recent.started, 1e-9)
        returns = recent.mean("return_sum", "episodes")
        return Status(
            seconds=self._seconds(),
            counters=counters,
            total_env_steps=self._config.run.total_env_steps,
            episode_return=self._progress.episode_return if math.isnan(returns) else returns,
            eval_return=float(self._evaluation.returns.mean()) if self._evaluation else math.nan,
            best_return=self._best_return if math.isfinite(self._best_return) else math.nan,
            target_return=self._target_return,
            epsilon=recent.reports[-1].epsilon,
            staleness=recent.mean("staleness", "decided"),
            env_steps_per_second=recent.total("env_steps") / elapsed,
            updates_per_second=recent.total("updates") / elapsed,
            workers_alive=self._workers_alive(),
            num_workers=self._tasks.num_workers,
        )

    def _workers_alive(self) -> int:
        if self._tasks.workers_alive is not None:
            return self._tasks.workers_alive()
        since = time.perf_counter() - REPORT_SECONDS
        return sum(when > since for when in self._last_reports.values())

    def _seconds(self) -> float:
        return self._seconds_before + time.perf_counter() - self._started
