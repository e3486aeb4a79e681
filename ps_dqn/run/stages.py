"""Says what a person waits for, where it takes longer than a few seconds."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from ps_dqn.profiling import timeline

# Until people hear of it, and again and again after that (seconds).
PATIENCE, REMINDER = 3.0, 10.0


@contextlib.contextmanager
def stage(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """What `told` does, and a span of the timeline; takes the same."""
    with told(what, say), timeline.span(what):
        yield


@contextlib.contextmanager
def told(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Says what the block does, from a thread of its own, where it takes its time.

    The thread has ended when the block has: a process that forks may have no other.

    Args:
        what: for people, like "connecting to the tasks".
        say: shows them a line; on any thread.
    """
    began, ended = time.monotonic(), threading.Event()

    def watch() -> None:
        if ended.wait(PATIENCE):
            return
        say(what)
        while not ended.wait(REMINDER):
            say(f"still {what}, for {time.monotonic() - began:.0f} s by now")

    thread = threading.Thread(target=watch, name="stage", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()  # what it says comes before what follows
