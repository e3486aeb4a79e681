"""How long the end of a run waits, and how much shorter once it was told to stop."""

import math
import time

# A stopped run waits this long for its closures, whose workers may have been stopped too (seconds).
# With `signals.SILENT_SECONDS`, which may follow it, less than the 15 that a run has to end.
STOPPED_SECONDS = 5.0


class LastWaits:
    """Of one run."""

    def __init__(self, limit: float):
        """Nobody has told the run to stop.

        Args:
            limit: how long it waits for whatever it is (seconds).
        """
        self._limit, self._stopped_at = limit, math.inf

    @property
    def is_stopped(self) -> bool:
        """Whether the run was told to stop."""
        return math.isfinite(self._stopped_at)

    def stop(self) -> None:
        """The run is told to stop; may be called from a signal handler."""
        self._stopped_at = min(self._stopped_at, time.perf_counter())

    def are_over(self, began: float, since: float | None = None) -> bool:
        """Whether something is waited for no more.

        Args:
            began: when it began to be (`time.perf_counter()`).
            since: when it last went on; None: not since then.
        """
        since = began if since is None else since
        # A signal may come while a checkpoint is written, before anything is waited for.
        stop_by = max(began, self._stopped_at) + STOPPED_SECONDS
        return time.perf_counter() > min(since + self._limit, stop_by)
