"""Environments that never return, in the process that has them: a worker's, an evaluator's.

Nothing interrupts them, and whoever waits for them would wait for good. So the process ends: where
it is of this machine the coordinator starts another, elsewhere whoever has started it does.
"""

import contextlib
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
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


@contextlib.contextmanager
def within(limit: float) -> Iterator[None]:
    """In a block this thread is in environments, each of which may take so long (seconds)."""
    thread = threading.get_ident()
    around = _under_way.get(thread)
    _under_way[thread] = _Call(time.monotonic(), limit, None)
    try:
        yield
    finally:
        if around is None:
            del _under_way[thread]
        else:
            _under_way[thread] = around._replace(since=time.monotonic())


def goes_on(write_down: Callable[[str], None] | None) -> None:
    """It comes to the next of them, whose failure this writes down where it is made already."""
    thread = threading.get_ident()
    if call := _under_way.get(thread):
        _under_way[thread] = _Call(time.monotonic(), call.limit, write_down)


def watch(tell: Callable[[str], None] | None = None) -> None:
    """From now on, ends this process if an environment takes too long.

    Args:
        tell: takes a line for people; None: standard error is theirs.
    """
    arguments = (tell or _print_error,)
    threading.Thread(target=_watch, args=arguments, name="environments", daemon=True).start()


def end_process(code: int) -> NoReturn:
    """Ends this process although a thread of it hangs, and those that environments are in."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(code)


def _print_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _watch(tell: Callable[[str], None]) -> None:
    before: set[tuple[int, _Call]] = set()
    while True:
        time.sleep(PERIOD)
        late = _late()
        for thread, call in before & late:
            _say(thread, call, tell)
            end_process(EXIT_CODE)
        before = late


def _late() -> set[tuple[int, _Call]]:
    now = time.monotonic()
    return {each for each in list(_under_way.items()) if now - each[1].since > each[1].limit}


def _say(thread: int, call: _Call, tell: Callable[[str], None]) -> None:
    """Where it hangs, and how to make it hang again."""
    what = f"did not return within --env_timeout={call.limit:g} s"
    if frame := sys._current_frames().get(thread):
        print("".join(traceback.format_stack(frame)), file=sys.stderr)
    if call.write_down is not None:
        call.write_down(what)
    tell(f"error: an environment {what}: this process ends")
