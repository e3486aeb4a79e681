"""How a process is asked to end."""

import math
import signal
import time

# Signals that ask for it.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Those so close to one another are one request (seconds): `timeout` and some supervisors send one
# to the process and one to its group.
TOGETHER_SECONDS = 0.25


class Requests:
    """Which signals ask for something anew."""

    def __init__(self) -> None:
        """None has come."""
        self._last = -math.inf

    def is_another(self) -> bool:
        """Whether the signal that has come now is not one with the one before."""
        now = time.monotonic()
        if now - self._last < TOGETHER_SECONDS:
            return False
        self._last = now
        return True
