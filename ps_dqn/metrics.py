"""What a run measures: from the workers' reports to rows of `metrics.csv` and TensorBoard."""

import dataclasses
import math

import numpy as np

from ps_dqn.reports import PHASES, Report
from ps_dqn.state import Counters

# The columns of metrics.csv after the four counters; empty where a row does not measure them.
COLUMNS = (
    "seconds",
    "train/episode_return",
    "eval/episode_return",
    "eval/episode_return_min",
    "eval/episode_return_max",
    "train/td_loss",
    "train/q_values",
    "train/grad_norm",
    "train/staleness",
    "train/epsilon",
    "replay/size",
    "rate/env_steps_per_second",
    "rate/updates_per_second",
    *(f"time/{phase}" for phase in PHASES),
)


@dataclasses.dataclass
class Interval:
    """Reports added up since some moment."""

    started: float  # seconds of training
    reports: list[Report] = dataclasses.field(default_factory=list)

    def total(self, field: str) -> float:
        """The sum of one field of the reports."""
        return math.fsum(getattr(report, field) for report in self.reports)

    def mean(self, field: str, over: str) -> float:
        """The sum of one field divided by the sum of another; NaN where that is 0."""
        count = self.total(over)
        return self.total(field) / count if count else math.nan


class Progress:
    """Where the run is, as the coordinator knows it from reports."""

    def __init__(self, start: Counters):
        """Continues from `start`, what the parameter servers counted when the run began."""
        self.counters = start
        self.phase_seconds = dict.fromkeys(PHASES, 0.0)
        self.last_report: Report | None = None
        self.episode_return = math.nan  # mean of the episodes of the last interval that had any
        self._replay_sizes: dict[int, float] = {}

    def add(self, report: Report) -> None:
        """Counts one closure."""
        counters = self.counters
        self.counters = Counters(
            counters.version + int(report.pushes),
            counters.updates + int(report.updates),
            counters.env_steps + int(report.env_steps),
            counters.episodes + int(report.episodes),
        )
        for phase in PHASES:
            self.phase_seconds[phase] += getattr(report, f"time_{phase}")
        self.last_report = report
        self._replay_sizes[int(report.worker)] = report.replay_size

    def train_row(self, interval: Interval, now: float) -> dict[str, float]:
        """The training columns over an interval that ends now (seconds of training)."""
        elapsed = max(now - interval.started, 1e-9)
        returns = interval.mean("return_sum", "episodes")
        if not math.isnan(returns):
            self.episode_return = returns
        return {
            "seconds": now,
            "train/episode_return": returns,
            "train/td_loss": interval.mean("td_loss", "updates"),
            "train/q_values": interval.mean("q_values", "updates"),
            "train/grad_norm": interval.mean("grad_norm", "updates"),
            "train/staleness": interval.mean("staleness", "pushes"),
            "train/epsilon": float(np.mean([report.epsilon for report in interval.reports])),
            "replay/size": sum(self._replay_sizes.values()),
            "rate/env_steps_per_second": interval.total("env_steps") / elapsed,
            "rate/updates_per_second": interval.total("updates") / elapsed,
            **{f"time/{phase}": interval.total(f"time_{phase}") for phase in PHASES},
        }


def evaluation_row(returns: np.ndarray, now: float) -> dict[str, float]:
    """The evaluation columns; returns of the episodes, float [episodes]."""
    return {
        "seconds": now,
        "eval/episode_return": float(returns.mean()),
        "eval/episode_return_min": float(returns.min()),
        "eval/episode_return_max": float(returns.max()),
    }
