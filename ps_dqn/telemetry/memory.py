"""How much memory this process has, with the processes that it started."""

import contextlib
import functools
import os
import pathlib
import resource
import sys
import time
from collections.abc import Iterator

# The kernel adds up pages to say it, which takes some milliseconds: so often at most (seconds).
PERIOD = 5.0
_PROC = pathlib.Path("/proc")


def used(alone: bool = False) -> int:
    """Bytes of this process and all it has started; at most `PERIOD` old.

    Memory that several processes share counts for each with its part (PSS); where the kernel does
    not say so, with all of it (RSS).

    Args:
        alone: without what it has started: a coordinator's tasks count for themselves.
    """
    return _used(int(time.monotonic() / PERIOD), alone)


@functools.lru_cache(maxsize=2)
def _used(moment: int, alone: bool) -> int:
    own = os.getpid()
    known = [of_process(pid) for pid in ([own] if alone else _family(own))]
    if any(known):
        return sum(known)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def of_process(pid: int) -> int:
    """Bytes of one process; 0 where it is gone, or the system does not say."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError):
        resident = (_PROC / str(pid) / "statm").read_text().split()[1]
        return int(resident) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _family(pid: int) -> Iterator[int]:
    """A process and those that it has started, and so on."""
    yield pid
    for children in (_PROC / str(pid) / "task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                yield from _family(int(child))
