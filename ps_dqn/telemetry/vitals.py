"""What a run shows of itself while it goes on: written by its loop, read by the health server."""

import dataclasses
import math
import time

from ps_dqn.config import Config
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.metrics import Interval, Progress


class Vitals:
    """The newest figures of a run; each time others, never changed, so any thread may read them."""

    def __init__(self, config: Config, num_workers: int):
        """Knows the plan only; `begin` follows."""
        self._plan = RunFigures(
            state="connecting",
            env_steps_goal=config.run.total_env_steps,
            workers=num_workers,
            checkpoint_period=config.run.checkpoint_period,
            staleness_bound=config.parameter_server.max_staleness,
        )
        self.begin()

    def begin(self) -> None:
        """The run is about to connect, and knows nothing yet."""
        self._figures, self._saved_at = self._plan, math.nan

    @property
    def env_steps(self) -> int:
        """Environment steps of the run, as far as they were shown."""
        counters = self._figures.counters
        return 0 if counters is None else counters.env_steps

    def enter(self, state: str) -> None:
        """The run is in another of `exporter.STATES`."""
        self._figures = dataclasses.replace(self._figures, state=state)

    def saved(self) -> None:
        """There is a checkpoint, or one from which training begins."""
        self._saved_at = time.perf_counter()

    def show(
        self,
        progress: Progress,
        recent: Interval,
        eval_return: float,
        best_return: float,
        workers_reporting: int,
        closures_lost: int,
    ) -> None:
        """Takes what the run knows by now.

        Args:
            progress: where it is.
            recent: its last reports.
            eval_return: mean return of the last evaluation; NaN where there was none.
            best_return: of all evaluations; not finite where there was none.
            workers_reporting: that are alive.
            closures_lost: whose results were lost with their workers.
        """
        total = progress.ledger.total
        epsilons = [report.epsilon for report in recent.reports]
        self._figures = dataclasses.replace(
            self._figures,
            counters=progress.counters,
            episode_return=progress.episode_return,
            eval_return=eval_return,
            best_return=best_return if math.isfinite(best_return) else math.nan,
            epsilon=epsilons[-1] if epsilons else self._figures.epsilon,
            staleness_mean=_or(recent.mean("staleness", "decided"), self._figures.staleness_mean),
            staleness_max=_or(recent.most("staleness_max"), self._figures.staleness_max),
            workers_reporting=workers_reporting,
            pushes={
                "applied": total("pushes"),
                "refused": total("refused"),
                "withheld": total("withheld_outliers") + total("withheld_not_finite"),
            },
            closures_lost=closures_lost,
            phase_seconds=progress.ledger.phase_seconds(),
        )

    def read(self) -> RunFigures:
        """The figures now; on any thread."""
        age = time.perf_counter() - self._saved_at
        return dataclasses.replace(self._figures, checkpoint_age=age)


def _or(value: float, otherwise: float) -> float:
    """What was measured, or what was before it."""
    return otherwise if math.isnan(value) else value
