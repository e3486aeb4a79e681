"""What a run shows of itself while it goes on: written by its loop, read by the health server."""

import dataclasses
import math
import time
from collections.abc import Callable

from ps_dqn.telemetry.figures import RecoveryFigures, RunFigures


class Vitals:
    """The newest figures of a run; each time others, never changed, so any thread may read them.

    Attributes:
        last_sign: when the run was last heard of (`time.monotonic()`).
    """

    def __init__(self, plan: RunFigures, recovery: Callable[[], RecoveryFigures] = RecoveryFigures):
        """Knows what is known before the run has connected.

        Args:
            plan: that.
            recovery: what the run has lost so far; may be called on any thread.
        """
        self._plan, self._recovery = plan, recovery
        self.begin()

    def begin(self) -> None:
        """The run is about to connect, and knows nothing yet."""
        self._figures, self._saved_at = self._plan, math.nan
        self._live()

    @property
    def env_steps(self) -> float:
        """Environment steps of the run, as far as they were shown; NaN while it connects."""
        return float(self._figures.counters.env_steps)

    def show(self, figures: RunFigures) -> None:
        """Takes what the run knows by now."""
        self._figures = figures
        self._live()

    def enter(self, state: str) -> None:
        """The run is in another of `figures.STATES`."""
        self._figures = dataclasses.replace(self._figures, state=state)
        self._live()

    def saved(self) -> None:
        """There is a checkpoint, or one from which training begins."""
        self._saved_at = time.perf_counter()
        self._live()

    def read(self) -> RunFigures:
        """The figures now; on any thread."""
        age = time.perf_counter() - self._saved_at
        return dataclasses.replace(self._figures, checkpoint_age=age, recovery=self._recovery())

    def _live(self) -> None:
        self.last_sign = time.monotonic()
