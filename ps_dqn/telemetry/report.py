"""What a training closure returns: a flat vector of named numbers."""

import collections
from typing import Any

import numpy as np

from ps_dqn.config.faults import ENV_FAILURES
from ps_dqn.state import Counters
from ps_dqn.telemetry import metrics

# What the metrics need of a worker, and how it adds up: "sum", "max" or "last".
MEASURES = metrics.measures()


def _fields() -> Any:
    run = (f"run_{name}" for name in Counters._fields)
    return collections.namedtuple("Report", ["worker", "absent_actor", *run, *MEASURES])


_Fields: Any = _fields()


class Report(_Fields):
    """One float64 each, of one closure.

    Its worker's index, the first of that worker's actors that is not there (-1: all are), the run's
    counters after that worker's last push, and `MEASURES`.
    """

    __slots__ = ()

    @classmethod
    def decode(cls, vector: np.ndarray) -> "Report":
        """The report in a vector that a worker made, float64 [number of fields]."""
        return cls(*(float(each) for each in vector))

    @property
    def counters(self) -> Counters:
        """Where the run was after this worker's last push."""
        return Counters(*(int(getattr(self, f"run_{name}")) for name in Counters._fields))

    @property
    def decided(self) -> float:
        """Pushes that came to the parameter servers with a vector."""
        return self._sum(metrics.DECIDED)

    @property
    def withheld(self) -> float:
        """Pushes whose vector the worker kept to itself."""
        return self._sum(metrics.WITHHELD)

    @property
    def exchanges(self) -> float:
        """Pulls and pushes there and back."""
        return self._sum(metrics.EXCHANGES)

    @property
    def env_failures(self) -> dict[str, float]:
        """Failures of environments, by kind."""
        return {kind: getattr(self, f"env_{kind}") for kind in ENV_FAILURES}

    def _sum(self, measures: tuple[str, ...]) -> float:
        return sum(float(getattr(self, measure)) for measure in measures)
