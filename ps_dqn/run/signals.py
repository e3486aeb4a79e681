"""How a run is asked to end, and what its exit code says to who started it."""

import signal
from collections.abc import Callable

FAILED = 1
WRONG_USAGE = 2  # starting it again is in vain
START_AGAIN = 75  # it goes on from its checkpoint; EX_TEMPFAIL of sysexits.h
# Why a run ended that was not over, beside "solved" and "finished".
STOPPED = "stopped"
INTERRUPTED = 128 + signal.SIGINT


class Signals:
    """SIGINT and SIGTERM end a run in good order; the second one ends it at once.

    SIGINT is a person's, who need not be told that the run can go on; SIGTERM is a system's, which
    wants to know whether to start it again.
    """

    def __init__(self) -> None:
        self.received = 0  # the first signal
        self._stop: Callable[[], None] | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def on_stop(self, stop: Callable[[], None] | None) -> None:
        """What a first signal calls; where there is nothing, it ends the process."""
        self._stop = stop

    def exit_code(self, is_over: bool) -> int:
        """The exit code of a run that ended in good order.

        Args:
            is_over: it reached its end, signal or not.
        """
        if is_over or not self.received:
            return 0
        return _exit_code(self.received)

    def _handle(self, number: int, frame: object) -> None:
        if self.received or self._stop is None:
            raise SystemExit(_exit_code(number))
        self.received = number
        self._stop()


def _exit_code(number: int) -> int:
    return START_AGAIN if number == signal.SIGTERM else INTERRUPTED
