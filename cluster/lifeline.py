"""A process's lifeline: a pipe whose other end only its parent holds.

However the parent goes, SIGKILL included, the kernel closes its end. A task ends itself then, with
everything it started; a coordinator is asked to end, as SIGTERM asks.
"""

import fcntl
import os
import select
import signal
import threading

# Tells a task that was started as a fresh interpreter which descriptor is its lifeline.
ENVIRONMENT_VARIABLE = "PS_DQN_LIFELINE_FD"
# Likewise a coordinator that a program has started.
OF_COORDINATOR = "PS_DQN_CALLER_FD"


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


def stop_without_caller() -> None:
    """Sends this process SIGTERM, once, when the program that started it is gone, if one did."""
    descriptor = int(os.environ.pop(OF_COORDINATOR, "-1"))
    if descriptor < 0:
        return
    if not hasattr(fcntl, "F_SETSIG"):  # not Linux, where tasks are not forked but spawned
        threading.Thread(target=_watch_caller, args=[descriptor], daemon=True).start()
        return
    # The kernel sends it: a thread that waits would be one too many for a process that forks.
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    mode = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, mode | os.O_ASYNC)
    if select.select([descriptor], [], [], 0.0)[0]:  # it was gone already
        os.kill(os.getpid(), signal.SIGTERM)


def _watch_caller(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
