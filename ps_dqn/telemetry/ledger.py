"""The ledger of a run: what each parameter server and each worker has done, and what it cost."""

import collections
import math
import statistics
from collections.abc import Iterable
from typing import Any

from ps_dqn.telemetry import metrics
from ps_dqn.telemetry.metrics import PHASES, WORK
from ps_dqn.telemetry.report import MEASURES, Report
from ps_dqn.wire.messages import Entry, Kind

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


class WorkerTotals:
    """The reports of one worker added up, each measure by its rule; NaN is left out."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._counts: collections.Counter[str] = collections.Counter()

    def add(self, report: Report) -> None:
        """Counts one closure."""
        for measure, rule in MEASURES.items():
            value = getattr(report, measure)
            if math.isnan(value):
                continue
            before = self._values.get(measure)
            if before is None or rule == "last":
                self._values[measure] = value
            else:
                self._values[measure] = max(before, value) if rule == "max" else before + value
            self._counts[measure] += 1

    def total(self, *measures: str) -> float:
        """The sum of measures."""
        return sum(self._values.get(measure, 0.0) for measure in measures)

    def count(self, measure: str) -> int:
        """How many reports had a measure."""
        return self._counts[measure]

    def largest(self, measure: str) -> float:
        """The largest of a measure; NaN where there was none."""
        return self._values.get(measure, math.nan)

    def seconds_per_update(self) -> float:
        """Time of work for an update; NaN where none was made."""
        busy = self.total(*(f"time_{phase}" for phase in WORK))
        updates = self.total("updates")
        return busy / updates if updates else math.nan


class WorkerLedger:
    """The reports of all workers added up, by worker."""

    def __init__(self, reports: Iterable[Report] = ()) -> None:
        self.num_reports = 0
        self._workers: dict[int, WorkerTotals] = {}
        for report in reports:
            self.add(report)

    def add(self, report: Report) -> None:
        """Counts one closure."""
        self.num_reports += 1
        self._workers.setdefault(int(report.worker), WorkerTotals()).add(report)

    def total(self, *measures: str) -> float:
        """The sum of measures over all workers."""
        return math.fsum(each.total(*measures) for each in self._workers.values())

    def count(self, measure: str) -> int:
        """How many reports had a measure."""
        return sum(each.count(measure) for each in self._workers.values())

    def largest(self, measure: str) -> float:
        """The largest of a measure; NaN where there was none."""
        values = [each.largest(measure) for each in self._workers.values()]
        return max((value for value in values if not math.isnan(value)), default=math.nan)

    def phase_seconds(self) -> dict[str, float]:
        """The time of all workers in each phase (seconds)."""
        return {phase: self.total(f"time_{phase}") for phase in PHASES}

    def slowness(self) -> dict[int, float]:
        """Each worker's time for an update, as a multiple of the median worker's."""
        pace = {worker: each.seconds_per_update() for worker, each in self._workers.items()}
        known = [each for each in pace.values() if not math.isnan(each)]
        usual = statistics.median(known) if known else math.nan
        return {worker: each / usual if usual else math.nan for worker, each in pace.items()}

    def values(self, seconds: float) -> dict[str, float]:
        """The metrics that follow from reports, by name; NaN where nothing was measured.

        Args:
            seconds: that the reports are of.
        """
        return {
            metric.name: metric.value.compute(self, seconds)
            for metric in metrics.METRICS
            if metric.value is not None and metric.name
        }

    def rows(self) -> dict[int, dict[str, float]]:
        """What each worker did, by the columns of workers.csv; NaN where it did nothing."""
        slowness = self.slowness()
        return {
            worker: {
                metric.worker: metric.value.compute(totals, math.nan)
                if metric.value is not None
                else slowness[worker]
                for metric in metrics.METRICS
                if metric.worker
            }
            for worker, totals in sorted(self._workers.items())
        }


def balance(servers: Iterable[dict[str, Any]]) -> float:
    """The bytes of the most loaded parameter server as a multiple of the mean."""
    loads = [server["bytes_in"] + server["bytes_out"] for server in servers]
    return max(loads) / statistics.mean(loads) if any(loads) else math.nan
