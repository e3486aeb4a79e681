"""The ledger of a run: what each parameter server and each worker has done, and what it cost."""

import collections
import math
import statistics
from collections.abc import Iterable
from typing import Any

from ps_dqn.wire.messages import Entry, Kind
from ps_dqn.wire.report import PHASES, Report

# A push this many versions old, or older, is counted in the last bin of the histogram.
BINS = 64


class ServerLedger:
    """Requests, bytes and decisions of one parameter server."""

    def __init__(self) -> None:
        self.pulls = self.pushes = self.bytes_out = self.bytes_in = self.duplicates = 0
        self.seconds = 0.0  # of deciding and applying
        self.applied = self.sum_of_tickets = 0
        self._kinds: dict[int, collections.Counter[str]] = {}
        self._staleness: dict[int, list[int]] = {}

    def pulled(self, num_bytes: int) -> None:
        """Counts a pull that was answered."""
        self.pulls += 1
        self.bytes_out += num_bytes

    def pushed(self, num_bytes: int, seconds: float) -> None:
        """Counts a push that came in."""
        self.pushes += 1
        self.bytes_in += num_bytes
        self.seconds += seconds

    def worked(self, seconds: float) -> None:
        """Counts time spent on what had come in before."""
        self.seconds += seconds

    def decided(self, entry: Entry) -> None:
        """Counts an entry of the log that is about a push."""
        kind = Kind(entry.kind)
        self._kinds.setdefault(entry.worker, collections.Counter())[kind.name.lower()] += 1
        if kind is Kind.APPLIED:
            self.applied += 1
            self.sum_of_tickets += entry.ticket
        if kind is not Kind.WITHHELD:
            histogram = self._staleness.setdefault(entry.worker, [0] * BINS)
            histogram[min(entry.staleness, BINS - 1)] += 1

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON; the workers' numbers by worker."""
        return {
            "pulls": self.pulls,
            "pushes": self.pushes,
            "bytes_out": self.bytes_out,
            "bytes_in": self.bytes_in,
            "duplicates": self.duplicates,
            "seconds": self.seconds,
            "kinds": {worker: dict(kinds) for worker, kinds in self._kinds.items()},
            "staleness": {worker: _without_tail(each) for worker, each in self._staleness.items()},
        }


def _without_tail(histogram: list[int]) -> list[int]:
    """The histogram up to its last bin that is not empty."""
    last = max((age for age, count in enumerate(histogram) if count), default=-1)
    return histogram[: last + 1]


class WorkerLedger:
    """The reports of each worker added up."""

    def __init__(self, reports: Iterable[Report] = ()) -> None:
        self._totals: dict[int, collections.Counter[str]] = {}
        for report in reports:
            self.add(report)

    def add(self, report: Report) -> None:
        """Counts one closure."""
        totals = self._totals.setdefault(int(report.worker), collections.Counter())
        for name, value in report._asdict().items():
            if name in ("staleness_max", "pull_max", "push_max"):
                totals[name] = max(totals[name], value)
            elif math.isfinite(value):
                totals[name] += value

    def total(self, field: str) -> float:
        """The sum of one field of a report over all workers and closures."""
        return math.fsum(totals[field] for totals in self._totals.values())

    def phase_seconds(self) -> dict[str, float]:
        """The time of all workers in each phase (seconds)."""
        return {phase: self.total(f"time_{phase}") for phase in PHASES}

    def rows(self) -> dict[int, dict[str, float]]:
        """What each worker did, by the names of `WORKER_COLUMNS`; NaN where it did nothing."""
        pace = {worker: _pace(totals) for worker, totals in self._totals.items()}
        known = [each for each in pace.values() if not math.isnan(each)]
        usual = statistics.median(known) if known else math.nan
        return {
            worker: _row(totals) | {"slowness": pace[worker] / usual if usual else math.nan}
            for worker, totals in sorted(self._totals.items())
        }


WORKER_COLUMNS = (
    "updates_made",
    "env_steps_made",
    "pushes_applied",
    "pushes_refused",
    "pushes_withheld",
    "staleness",
    "staleness_max",
    "bytes_pulled",
    "bytes_pushed",
    "pull_ms",
    "push_ms",
    "slowness",  # time for an update, as a multiple of the median worker's
    *(f"time_{phase}" for phase in PHASES),
)


def balance(servers: Iterable[dict[str, Any]]) -> float:
    """The bytes of the most loaded parameter server as a multiple of the mean."""
    loads = [server["bytes_in"] + server["bytes_out"] for server in servers]
    return max(loads) / statistics.mean(loads) if any(loads) else math.nan


def _pace(totals: collections.Counter[str]) -> float:
    """Seconds for an update; waiting for others is not counted."""
    busy = sum(totals[f"time_{phase}"] for phase in PHASES if phase != "waiting")
    return busy / totals["updates"] if totals["updates"] else math.nan


def _row(totals: collections.Counter[str]) -> dict[str, float]:
    withheld = totals["withheld_outliers"] + totals["withheld_not_finite"]
    decided = totals["pushes"] + totals["refused"]
    exchanges = decided + withheld
    return {
        "updates_made": totals["updates"],
        "env_steps_made": totals["env_steps"],
        "pushes_applied": totals["pushes"],
        "pushes_refused": totals["refused"],
        "pushes_withheld": withheld,
        "staleness": totals["staleness"] / decided if decided else math.nan,
        "staleness_max": totals["staleness_max"],
        "bytes_pulled": totals["bytes_pulled"],
        "bytes_pushed": totals["bytes_pushed"],
        "pull_ms": 1e3 * totals["time_pull"] / exchanges if exchanges else math.nan,
        "push_ms": 1e3 * totals["time_push"] / exchanges if exchanges else math.nan,
        **{f"time_{phase}": totals[f"time_{phase}"] for phase in PHASES},
    }
