"""How quickly replay servers are added to and drawn from, by what they say of themselves."""

from collections.abc import Mapping, Sequence
from typing import Any

# Of a server's ledger: the metric that says how quickly it grows, and the one that says how large
# it is, summed over servers.
_RATES = {"adds": "replay/adds_per_second", "samples": "replay/samples_per_second"}
_TOTALS = {"bytes_in": "replay/bytes_in", "bytes_out": "replay/bytes_out"}


class ReplayRates:
    """Follows the ledgers of replay servers from one row of metrics to the next."""

    def __init__(self) -> None:
        self._before: list[Mapping[str, Any]] = []
        self._at = 0.0

    def begin(self, ledgers: Sequence[Mapping[str, Any]], now: float) -> None:
        """Follows them from what they say now (seconds of training)."""
        self._before, self._at = list(ledgers), now

    def row(self, ledgers: Sequence[Mapping[str, Any]], now: float) -> dict[str, float]:
        """The metrics since the last row; none without replay servers.

        Args:
            ledgers: of each server; one that was started again begins anew.
            now: when that is (seconds of training).
        """
        if not ledgers:
            return {}
        before = self._before or [dict.fromkeys(_RATES, 0) for _ in ledgers]
        seconds = now - self._at
        self._before, self._at = list(ledgers), now
        found = {metric: float(_sum(ledgers, name)) for name, metric in _TOTALS.items()}
        for name, metric in _RATES.items():
            pairs = zip(before, ledgers, strict=True)
            grown = sum(_grown(old.get(name, 0), new.get(name, 0)) for old, new in pairs)
            found[metric] = grown / max(seconds, 1e-9)
        return found


def _sum(ledgers: Sequence[Mapping[str, Any]], name: str) -> float:
    return sum(ledger.get(name, 0) for ledger in ledgers)


def _grown(before: float, now: float) -> float:
    return now - before if now >= before else now
