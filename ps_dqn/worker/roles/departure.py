"""How a worker leaves that was told to, so that nothing it has learned is lost with it."""

import threading

# After the end of its last closure: what comes of it has to reach the coordinator, which then has
# another one for this worker, or has not (seconds).
LAST_SECONDS = 0.5


class Departure:
    """What closures and the thread that ends the task tell each other."""

    def __init__(self) -> None:
        self.has_begun = False
        self._is_idle, self._is_heard = threading.Event(), threading.Event()
        self._is_idle.set()

    def closure_began(self) -> None:
        """What came of the closure before has been heard of."""
        self._is_idle.clear()
        self._is_heard.set()

    def closure_ended(self) -> None:
        """Its report is on its way."""
        self._is_heard.clear()
        self._is_idle.set()

    def begin(self) -> None:
        """From now on closures end with the push that they are at; waits for the one that runs.

        How long is for the caller to say, who ends the process: where parameter servers do not
        answer, or an environment hangs, it takes for ever.
        """
        was_idle = self._is_idle.is_set()
        self.has_begun = True
        self._is_idle.wait()
        if not was_idle:
            self._is_heard.wait(LAST_SECONDS)
