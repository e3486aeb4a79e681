"""A task's lifeline: a pipe whose other end only its parent holds.

However the parent goes, SIGKILL included, the kernel closes its end, the read below returns, and
the task ends itself with everything it started.
"""

import os
import signal
import threading

# Tells a task that was started as a fresh interpreter which descriptor is its lifeline.
ENVIRONMENT_VARIABLE = "PS_DQN_LIFELINE_FD"


def hold(descriptor: int) -> None:
    """Ends this process and its process group when the other end of the pipe closes."""

    def watch() -> None:
        while os.read(descriptor, 1):
            pass
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def hold_if_given() -> None:
    """`hold`, where the parent passed a lifeline by `ENVIRONMENT_VARIABLE`."""
    descriptor = os.environ.pop(ENVIRONMENT_VARIABLE, None)
    if descriptor is not None:
        hold(int(descriptor))
