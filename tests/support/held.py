"""What processes hold: descriptors and memory, as Linux says."""

import contextlib
import os
import pathlib
from collections.abc import Iterable


def held_by(pids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Descriptors and resident memory (bytes) of each process that is there."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
            pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
            found[pid] = (descriptors, pages * os.sysconf("SC_PAGE_SIZE"))
    return found
