"""What a worker counts and times between two reports."""

import collections
import time

from ps_dqn.telemetry.report import Report


class Tally:
    """Sums and maxima by the names of `Report`'s fields, and the returns of finished episodes."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self._values: dict[str, float] = collections.defaultdict(float)
        self._lap_began = time.perf_counter()

    def start_clock(self) -> None:
        """The first phase begins now: what was before is nobody's."""
        self._lap_began = time.perf_counter()

    def lap(self, phase: str) -> float:
        """Ends a phase, one of `PHASES`, and begins the next; its length (seconds)."""
        now = time.perf_counter()
        seconds, self._lap_began = now - self._lap_began, now
        self.add(f"time_{phase}", seconds)
        return seconds

    def add(self, field: str, amount: float = 1.0) -> None:
        """Adds to a sum."""
        self._values[field] += amount

    def maximum(self, field: str, value: float) -> None:
        """Raises a maximum to a value above it; it begins at 0."""
        self._values[field] = max(self._values[field], value)

    def take(self) -> dict[str, float]:
        """All fields of a report, 0 where nothing was counted; the next ones begin anew."""
        fields = {name: self._values[name] for name in Report._fields}
        fields |= {
            "episodes": len(self.returns),
            "return_sum": sum(self.returns),
        }
        self._values.clear()
        self.returns = []
        return fields
