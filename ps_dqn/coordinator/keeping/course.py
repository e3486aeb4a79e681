"""The course of a run over its connections: what is due when, and what was reported and judged.

A connection may be lost before anything is due that a new one would count from its own beginning:
then nothing would ever be evaluated or written.
"""

from ps_dqn.config import Run
from ps_dqn.coordinator.evaluating.greedy_play import Evaluation
from ps_dqn.state import Counters
from ps_dqn.telemetry.progress import Interval


class Course:
    """Of one process's run.

    Attributes:
        reports: of all connections.
        last: the last evaluation.
        in_a_row: evaluations that have reached the target return, up to the last.
    """

    def __init__(self, config: Run):
        """Nothing was reported; `config` has the periods."""
        self._metrics_period, self._eval_period = config.metrics_period, config.eval_period
        self._next_row = self._next_evaluation = -1  # environment steps; -1: no connection yet
        self.reports: Interval | None = None
        self.last: Evaluation | None = None
        self.in_a_row = 0

    def begin(self, counters: Counters, now: float) -> Interval:
        """A connection begins.

        Args:
            counters: where the run goes on, maybe before what was reported.
            now: seconds of training.

        Returns:
            The reports.
        """
        env_steps = counters.env_steps
        self._next_row = _next(self._next_row, env_steps, self._metrics_period)
        self._next_evaluation = _next(self._next_evaluation, env_steps, self._eval_period)
        if self.last is not None and self.last.counters.env_steps > env_steps:
            self.last, self.in_a_row = None, 0  # of parameters that nobody has any more
        self.reports = self.reports or Interval(now)
        return self.reports

    def writes(self, env_steps: int) -> bool:
        """Whether a row of metrics is due, the next of which is a period later."""
        if env_steps < self._next_row:
            return False
        self._next_row = env_steps + self._metrics_period
        return True

    def evaluates(self, env_steps: int) -> bool:
        """Whether an evaluation is due, likewise."""
        if env_steps < self._next_evaluation:
            return False
        self._next_evaluation = env_steps + self._eval_period
        return True

    def evaluation_lost(self, confirms: bool = False) -> None:
        """The one on its way is lost with the connection: the next connection begins with one.

        Args:
            confirms: it was the confirmation of the last one, which counts anew then.
        """
        self._next_evaluation = 0
        if confirms:
            self.in_a_row = max(self.in_a_row - 1, 0)


def _next(before: int, env_steps: int, period: int) -> int:
    """When something is due, where a connection begins (environment steps).

    Args:
        before: when it was, in the last connection; -1: this is the first.
        env_steps: where the run is.
        period: of what is due.
    """
    if before < 0:  # another process may have come this far
        return (env_steps // period + 1) * period
    return min(before, env_steps + period)
