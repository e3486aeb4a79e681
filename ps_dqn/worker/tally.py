"""What a worker counts and times between two reports."""

import collections
import math
import time

from ps_dqn.telemetry.report import Report
from ps_dqn.wire.messages import Kind, Verdict
from ps_dqn.worker.laps import Laps


class Tally:
    """Sums and maxima by the names of `Report`'s fields, and the returns of finished episodes."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self._values: dict[str, float] = collections.defaultdict(float)
        self._lap_began = time.perf_counter()
        self._beside: list[tuple[str, float]] = []  # phases and when each ended
        self._laps = Laps()
        # What other threads may read at any time: the phase that was entered last and when, what
        # was made since the first report began, and the last push's staleness (NaN before one).
        self.now = ("dispatch", self._lap_began)
        self._updates_before, self.staleness = 0.0, math.nan

    @property
    def updates(self) -> float:
        """Made in all, whatever was reported; on any thread."""
        return self._updates_before + self._values.get("updates", 0.0)

    def start_clock(self, then: str) -> None:
        """The first phase begins now: what was before is nobody's."""
        self._lap_began = self.enter(then)

    def enter(self, phase: str) -> float:
        """A worker is in a phase from now on; the time."""
        self.now = phase, time.perf_counter()
        return self.now[1]

    def lap(self, phase: str, then: str) -> float:
        """Ends a phase, one of `PHASES`, and begins the next; its length (seconds)."""
        now = self.enter(then)
        self._laps.add(phase, self._lap_began, now)
        seconds, self._lap_began = now - self._lap_began, now
        self.add(f"time_{phase}", seconds)
        return seconds

    def lap_beside(self, phase: str, then: str) -> float:
        """Ends a phase that others may go on beside; the seconds since the last such, or lap."""
        now = self.enter(then)
        began = self._beside[-1][1] if self._beside else self._lap_began
        self._beside.append((phase, now))
        self._laps.add_beside(phase, began, now)
        return now - began

    def exchanged(self, phase: str, then: str) -> None:
        """Ends a pull or a push, whose length counts whether or not anybody waited for it."""
        seconds = self.lap_beside(phase, then)
        self.add(f"{phase}_took", seconds)
        self.maximum(f"{phase}_max", seconds)

    def join(self) -> None:
        """The phases beside are over: of them, what came after the last lap was waited for."""
        for phase, end in self._beside:
            seconds = max(end - self._lap_began, 0.0)
            self._lap_began += seconds
            self.add(f"time_{phase}", seconds)
        self._beside.clear()

    def add(self, field: str, amount: float = 1.0) -> None:
        """Adds to a sum."""
        self._values[field] += amount

    def maximum(self, field: str, value: float) -> None:
        """Raises a maximum to a value above it; it begins at 0."""
        self._values[field] = max(self._values[field], value)

    def newest(self, field: str, value: float) -> None:
        """What a field is by now."""
        self._values[field] = value

    def judged(self, verdict: Verdict) -> None:
        """Counts what became of a push."""
        if verdict.kind in (Kind.WITHHELD, Kind.COLLECTED):
            return
        is_applied = verdict.kind == Kind.APPLIED and not verdict.duplicate
        self.add("pushes" if is_applied else "refused")
        self.add("staleness", verdict.staleness)
        self.maximum("staleness_max", verdict.staleness)
        self.staleness = float(verdict.staleness)

    def take(self) -> dict[str, float]:
        """All fields of a report, 0 where nothing was counted; the next ones begin anew."""
        fields = {name: self._values[name] for name in Report._fields}
        fields |= {
            "episodes": len(self.returns),
            "return_sum": sum(self.returns),
        }
        self._updates_before += self._values.get("updates", 0.0)
        self._values.clear()
        self.returns = []
        return fields
