"""Where a run is, as the coordinator knows it from its workers' reports."""

import dataclasses
import math

import numpy as np

from ps_dqn.state import Counters
from ps_dqn.telemetry import metrics
from ps_dqn.telemetry.ledger import WorkerLedger
from ps_dqn.telemetry.report import Report


@dataclasses.dataclass
class Interval:
    """Reports added up since some moment."""

    started: float  # seconds of training
    ledger: WorkerLedger = dataclasses.field(default_factory=WorkerLedger)

    def values(self, now: float) -> dict[str, float]:
        """The metrics of it, by name; `now` in seconds of training."""
        return self.ledger.values(max(now - self.started, 1e-9))


class Progress:
    """Counters, and reports added up: of the session, of a row of metrics.csv, of the last moments.

    Times are in seconds of training.
    """

    def __init__(self, start: Counters, now: float = 0.0, session: Interval | None = None):
        """Continues from `start`, what the parameter servers counted when the connection began.

        Args:
            start: the counters.
            now: seconds of training.
            session: reports of earlier connections of this process, which others are added to.
        """
        self.counters = start
        self.session = session or Interval(now)
        self.interval, self.recent = Interval(now), Interval(now)
        self._known: dict[str, float] = {}

    def add(self, report: Report) -> None:
        """Counts one closure; the counters only grow, so the largest are the newest."""
        self.counters = Counters(*map(max, self.counters, report.counters))
        for interval in (self.session, self.interval, self.recent):
            interval.ledger.add(report)

    def train_row(self, now: float, balance: float) -> dict[str, float]:
        """The training columns over the interval.

        Args:
            now: its end.
            balance: load of the busiest parameter server, as a multiple of the mean.
        """
        slowness = [
            each for each in self.interval.ledger.slowness().values() if not math.isnan(each)
        ]
        values, session = self.interval.values(now), self.session.values(now)
        return {
            "seconds": now,
            **values,
            **{each.name: session[each.name] for each in metrics.METRICS if each.since_start},
            "wire/shard_balance": balance,
            "workers/slowest": max(slowness, default=math.nan),
        }

    def recent_values(self, now: float) -> dict[str, float]:
        """The metrics of the last moments, by name; where nothing was measured, what was before."""
        self._known = {
            name: self._known.get(name, math.nan) if math.isnan(value) else value
            for name, value in self.recent.values(now).items()
        }
        return self._known


def evaluation_row(returns: np.ndarray, now: float) -> dict[str, float]:
    """The evaluation columns; returns of the episodes, float [episodes]."""
    return {
        "seconds": now,
        "eval/episode_return": float(returns.mean()),
        "eval/episode_return_min": float(returns.min()),
        "eval/episode_return_max": float(returns.max()),
    }


def confirmation_row(mean: float, now: float) -> dict[str, float]:
    """The columns of an evaluation's confirmation by further episodes, of this mean return."""
    return {"seconds": now, "eval/confirmed_return": mean}
