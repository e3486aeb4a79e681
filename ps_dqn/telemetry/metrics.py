"""What a run measures: from the workers' reports to rows of `metrics.csv` and TensorBoard."""

import dataclasses
import math

import numpy as np

from ps_dqn.state import Counters
from ps_dqn.telemetry.ledger import WorkerLedger
from ps_dqn.wire.report import PHASES, Report

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
    "train/staleness_max",
    "train/epsilon",
    "replay/size",
    "rate/env_steps_per_second",
    "rate/updates_per_second",
    "push/applied",
    "push/refused",
    "push/withheld",
    "wire/bytes_pulled",
    "wire/bytes_pushed",
    "wire/bytes_pulled_per_update",
    "wire/bytes_pushed_per_update",
    "wire/pull_ms",
    "wire/pull_ms_max",
    "wire/push_ms",
    "wire/push_ms_max",
    "wire/shard_balance",
    "workers/slowest",
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

    def workers(self) -> dict[int, dict[str, float]]:
        """What each worker did in it; see `WorkerLedger.rows`."""
        return WorkerLedger(self.reports).rows()

    def most(self, field: str) -> float:
        """The largest of one field of the reports."""
        return max((getattr(report, field) for report in self.reports), default=math.nan)

    def mean(self, field: str, over: str) -> float:
        """The sum of one field divided by the sum of another; NaN where that is 0."""
        count = self.total(over)
        return self.total(field) / count if count else math.nan


class Progress:
    """Where the run is, as the coordinator knows it from reports."""

    def __init__(self, start: Counters):
        """Continues from `start`, what the parameter servers counted when the run began."""
        self.counters = start
        self.ledger = WorkerLedger()
        self.episode_return = math.nan  # mean of the episodes of the last interval that had any
        self._bytes_pulled = self._bytes_pushed = 0.0
        self._replay_sizes: dict[int, float] = {}

    def add(self, report: Report) -> None:
        """Counts one closure; the counters only grow, so the largest are the newest."""
        self.counters = Counters(*map(max, self.counters, report.counters))
        self.ledger.add(report)
        self._bytes_pulled += report.bytes_pulled
        self._bytes_pushed += report.bytes_pushed
        self._replay_sizes[int(report.worker)] = report.replay_size

    def train_row(self, interval: Interval, now: float, balance: float) -> dict[str, float]:
        """The training columns over an interval.

        Args:
            interval: the reports.
            now: its end (seconds of training).
            balance: load of the busiest parameter server, as a multiple of the mean.
        """
        elapsed = max(now - interval.started, 1e-9)
        returns = interval.mean("return_sum", "episodes")
        if not math.isnan(returns):
            self.episode_return = returns
        epsilons = [each.epsilon for each in interval.reports if not math.isnan(each.epsilon)]
        return {
            "seconds": now,
            "train/episode_return": returns,
            "train/td_loss": interval.mean("td_loss", "updates"),
            "train/q_values": interval.mean("q_values", "updates"),
            "train/grad_norm": interval.mean("grad_norm", "updates"),
            "train/staleness": interval.mean("staleness", "decided"),
            "train/staleness_max": interval.most("staleness_max"),
            "train/epsilon": float(np.mean(epsilons)) if epsilons else math.nan,
            "replay/size": sum(self._replay_sizes.values()),
            "rate/env_steps_per_second": interval.total("env_steps") / elapsed,
            "rate/updates_per_second": interval.total("updates") / elapsed,
            "push/applied": interval.total("pushes"),
            "push/refused": interval.total("refused"),
            "push/withheld": interval.total("withheld"),
            "wire/bytes_pulled": self._bytes_pulled,
            "wire/bytes_pushed": self._bytes_pushed,
            "wire/bytes_pulled_per_update": interval.mean("bytes_pulled", "updates"),
            "wire/bytes_pushed_per_update": interval.mean("bytes_pushed", "updates"),
            "wire/pull_ms": 1e3 * interval.mean("time_pull", "exchanges"),
            "wire/pull_ms_max": 1e3 * interval.most("pull_max"),
            "wire/push_ms": 1e3 * interval.mean("time_push", "exchanges"),
            "wire/push_ms_max": 1e3 * interval.most("push_max"),
            "wire/shard_balance": balance,
            "workers/slowest": max(
                (row["slowness"] for row in interval.workers().values()), default=math.nan
            ),
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
