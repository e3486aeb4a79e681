"""What follows from evaluations: whether the run is solved, and what is its best checkpoint."""

import numpy as np

from ps_dqn.config import Config
from ps_dqn.coordinator.evaluating.greedy_play import Evaluation, Evaluations
from ps_dqn.coordinator.keeping.course import Course
from ps_dqn.coordinator.keeping.saving import Saving
from ps_dqn.profiling import timeline
from ps_dqn.state import Counters
from ps_dqn.telemetry.observer import Observer
from ps_dqn.telemetry.progress import confirmation_row, evaluation_row

# Evaluations in a row that must reach the target return: one may be luck.
EVALUATIONS_IN_A_ROW = 3


class Judging:
    """Hears of each evaluation and of its confirmation."""

    def __init__(
        self,
        config: Config,
        target_return: float,
        evaluations: Evaluations,
        saving: Saving,
        observer: Observer,
        course: Course,
    ):
        """Has heard of none in this connection.

        Args:
            config: says what confirms an evaluation, and from where on they are judged.
            target_return: ends the run.
            evaluations: of the run.
            saving: of its checkpoints.
            observer: shows them.
            course: of the run, which knows the last one.
        """
        self._confirms, self._target_return = config.run.confirming_episodes > 0, target_return
        self._first = config.pruning.judged_from(config.run.total_env_steps)  # environment steps
        self._evaluations, self._saving, self._observer = evaluations, saving, observer
        self._course = course

    @property
    def last(self) -> Evaluation | None:
        """The last evaluation."""
        return self._course.last

    @property
    def is_solved(self) -> bool:
        """Whether enough evaluations in a row have reached the target return."""
        return self._course.in_a_row >= EVALUATIONS_IN_A_ROW

    def is_of(self, counters: Counters) -> bool:
        """Whether the last evaluation is of the parameters then, and nothing of it is missing."""
        is_last = self.last is not None and self.last.counters == counters
        return is_last and not self._evaluations.is_running

    def hear(self, counters: np.ndarray, returns: np.ndarray, seconds: float) -> None:
        """Takes a part of an evaluation; judges it if that was the last.

        Args:
            counters: when it was frozen, where this part did so.
            returns: of its episodes.
            seconds: of training so far.
        """
        evaluation = self._evaluations.on_part(counters, returns)
        if evaluation is None:
            return
        mean = float(evaluation.returns.mean())
        if evaluation.confirms:
            self._observer.evaluated(evaluation.counters, confirmation_row(mean, seconds))
            self._saving.best(evaluation.counters, mean, seconds, evaluation.network)
            return
        self._course.last = evaluation
        self._observer.evaluated(evaluation.counters, evaluation_row(evaluation.returns, seconds))
        if evaluation.counters.env_steps < self._first:
            return
        reaches = mean >= self._target_return
        self._course.in_a_row = self._course.in_a_row + 1 if reaches else 0
        if reaches:
            timeline.instant("first evaluation that reached the target")
        if not self._confirms:
            self._saving.best(evaluation.counters, mean, seconds, evaluation.network)
        elif mean > self._saving.best_return:  # one that is as good was confirmed by more
            self._evaluations.confirm()
