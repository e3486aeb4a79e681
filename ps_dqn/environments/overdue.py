"""Environments that never return, in a worker's own process.

Nothing interrupts them, and whoever waits for them would wait for good. So the process ends: where
it is of this machine the coordinator starts another, elsewhere whoever has started it does.
"""

import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple, NoReturn

EXIT_CODE = 1
# From one look to the next (seconds); a call must be overdue in two of them, since the process may
# have been stopped itself.
PERIOD = 1.0


class _Call(NamedTuple):
    """One that is under way."""

    since: float  # `time.monotonic()`
    limit: float  # seconds
    write_down: Callable[[str], None] | None  # what the environment did, where that is known


# Of each thread that is in an environment.
_under_way: dict[int, _Call] = {}


def begins(limit: float) -> None:
    """This thread goes into environments, each of which may take so long (seconds)."""
    _under_way[threading.get_ident()] = _Call(time.monotonic(), limit, None)


def goes_on(write_down: Callable[[str], None] | None) -> None:
    """It comes to the next of them, whose failure this writes down where it is made already."""
    thread = threading.get_ident()
    if call := _under_way.get(thread):
        _under_way[thread] = _Call(time.monotonic(), call.limit, write_down)


def ends() -> None:
    """This thread is back."""
    _under_way.pop(threading.get_ident(), None)


def watch() -> None:
    """From now on, ends this process if an environment takes too long."""
    threading.Thread(target=_watch, name="environments", daemon=True).start()


def end_process(code: int) -> NoReturn:
    """Ends this process although a thread of it hangs, and those that environments are in."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(code)


def _watch() -> None:
    before: set[tuple[int, _Call]] = set()
    while True:
        time.sleep(PERIOD)
        late = _late()
        for thread, call in before & late:
            _say(thread, call)
            end_process(EXIT_CODE)
        before = late


def _late() -> set[tuple[int, _Call]]:
    now = time.monotonic()
    return {each for each in list(_under_way.items()) if now - each[1].since > each[1].limit}


def _say(thread: int, call: _Call) -> None:
    """Where it hangs, and how to make it hang again."""
    what = f"did not return within --env_timeout={call.limit:g} s"
    if frame := sys._current_frames().get(thread):
        print("".join(traceback.format_stack(frame)), file=sys.stderr)
    if call.write_down is not None:
        call.write_down(what)
    print(f"error: an environment {what}: this worker ends", file=sys.stderr, flush=True)
