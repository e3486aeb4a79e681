"""How much memory this process has, with the processes that it started."""

import contextlib
import functools
import glob
import os
import pathlib
import resource
import sys
import threading
import time
from collections.abc import Iterator

# The kernel adds up pages to say it, which takes some milliseconds, and up to a second where many
# processes want to compute: so often at most (seconds).
PERIOD = 5.0
_PROC = pathlib.Path("/proc")


def used(alone: bool = False) -> int:
    """Bytes of this process and all it has started, as it was some seconds ago at most.

    Memory that several processes share counts for each with its part (PSS); where the kernel does
    not say so, with all of it (RSS). Who asks waits the first time only.

    Args:
        alone: without what it has started: a coordinator's tasks count for themselves.
    """
    return _reading(os.getpid(), alone).value()


class Reading:
    """What processes have, read now and then beside whoever asks."""

    def __init__(self, pid: int, alone: bool):
        """Of a process, and of those that it has started unless it counts alone."""
        self._pid, self._alone = pid, alone
        self._lock, self._turn = threading.Lock(), threading.Semaphore()
        self._value, self._read_at = 0, -float("inf")

    def value(self) -> int:
        """The newest reading; begins another one where it is older than `PERIOD`."""
        with self._lock:
            if not self._value:
                self._read()
            is_old = time.monotonic() - self._read_at >= PERIOD
        if is_old and self._turn.acquire(blocking=False):
            threading.Thread(target=self.refresh, name="memory", daemon=True).start()
        return self._value

    def refresh(self) -> None:
        """Reads, on a thread of its own."""
        try:
            self._read()
        finally:
            self._turn.release()

    def _read(self) -> None:
        known = [of_process(pid) for pid in ([self._pid] if self._alone else family(self._pid))]
        self._value, self._read_at = sum(known) or _largest(), time.monotonic()


# A process that was forked reads for itself.
_reading = functools.cache(Reading)


def _largest() -> int:
    """The most that this process ever had."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def of_process(pid: int) -> int:
    """Bytes of one process; 0 where it is gone, or the system does not say."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError):
        resident = (_PROC / str(pid) / "statm").read_text(encoding="utf-8").split()[1]
        return int(resident) * os.sysconf("SC_PAGE_SIZE")
    return 0


def family(pid: int) -> Iterator[int]:
    """A process and those that it has started, and so on; any of them may end meanwhile."""
    yield pid
    # Unlike pathlib's, this one passes over folders that are gone when it comes to them.
    for children in glob.iglob(f"{_PROC}/{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            for child in pathlib.Path(children).read_text(encoding="utf-8").split():
                yield from family(int(child))
