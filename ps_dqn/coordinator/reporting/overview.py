"""What there is to see of a run that trains, put together from all who know of it."""

import collections
import dataclasses
import math

from ps_dqn.config import Config
from ps_dqn.coordinator.evaluating.greedy_play import Evaluation
from ps_dqn.coordinator.keeping.saving import Saving
from ps_dqn.coordinator.supervision.tasks import Tasks
from ps_dqn.telemetry import memory
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.observer import Observer
from ps_dqn.telemetry.progress import Progress

# The time that is left follows from the pace of so long (seconds).
PACE_SECONDS = 60.0


class Overview:
    """Makes the figures of one session."""

    def __init__(
        self,
        config: Config,
        target_return: float,
        session: int,
        tasks: Tasks,
        saving: Saving,
        observer: Observer,
    ):
        """Has seen nothing yet.

        Args:
            config: the experiment.
            target_return: what its evaluations are to reach.
            session: of the run, by its parameter servers.
            tasks: of the run.
            saving: knows its best evaluation.
            observer: knows what could not be written.
        """
        self._plan = dataclasses.replace(
            RunFigures.planned(config, tasks.num_workers), target_return=target_return
        )
        self._session, self._tasks, self._saving, self._observer = session, tasks, saving, observer
        self._env_steps = self._updates = 0.0
        self._reports = 0  # that were heard of when it was looked last
        self._pace: collections.deque[tuple[float, float]] = collections.deque()
        self._updates_before = math.nan  # when it was first looked

    def figures(
        self,
        state: str,
        progress: Progress,
        evaluation: Evaluation | None,
        closures_lost: int,
        now: float,
    ) -> RunFigures:
        """The run as it is now.

        Args:
            state: one of `figures.STATES`.
            progress: by reports.
            evaluation: the last one.
            closures_lost: so many were.
            now: seconds of training.
        """
        pulses = self._tasks.pulses
        is_heard, counters = False, progress.counters
        env_steps, updates = counters.env_steps, counters.updates
        if pulses is not None:
            is_heard = pulses.look(self._session)
            env_steps, updates = pulses.counters(self._session, counters, self._tasks.reported_at)
        reports, self._reports = self._reports, progress.session.ledger.num_reports
        self._env_steps = max(self._env_steps, env_steps)
        self._updates = max(self._updates, updates)
        return dataclasses.replace(
            self._plan,
            state=state,
            seconds=now,
            counters=counters,
            eval_return=float(evaluation.returns.mean()) if evaluation else math.nan,
            best_return=best if math.isfinite(best := self._saving.best_return) else math.nan,
            workers_reporting=self._tasks.workers_reporting,
            closures_lost=closures_lost,
            failed_writes=self._observer.disk.failures,
            recent=progress.recent_values(now),
            session=progress.session.values(now),
            is_news=is_heard or self._reports > reports,
            env_steps_now=self._env_steps,
            updates_now=self._updates,
            seconds_left=self._seconds_left(now),
            memory=memory.used(alone=True),
            tasks=pulses.rows(self._tasks.gone) if pulses is not None else (),
        )

    def _seconds_left(self, now: float) -> float:
        if math.isnan(self._updates_before):
            self._updates_before = self._updates
        if self._updates == self._updates_before:
            self._pace.clear()  # filling the replay is quicker than learning will be
        self._pace.append((now, self._env_steps))
        while len(self._pace) > 2 and now - self._pace[0][0] > PACE_SECONDS:
            self._pace.popleft()
        began, before = self._pace[0]
        made = self._env_steps - before
        left = max(self._plan.env_steps_goal - self._env_steps, 0.0)
        return left * (now - began) / made if made else math.nan
