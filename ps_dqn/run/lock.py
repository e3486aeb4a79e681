"""One run at a time in a run directory: two would mix their rows and checkpoints."""

import contextlib
import fcntl
import os
import pathlib
import socket
import time
from typing import IO

from ps_dqn.errors import UsageError

LOCK = "lock"
# One of another machine may have died with it; its file system needs time to let go (seconds).
OTHERS_SECONDS = 60.0
_AGAIN_SECONDS = 0.5

# Open for as long as this process lives, which holds the locks; children it forks do not.
_held: dict[pathlib.Path, IO[str]] = {}


def hold(folder: pathlib.Path, flag: str = "--run_dir") -> None:
    """Keeps a run directory to this process until it ends, however it ends.

    Args:
        folder: it must exist.
        flag: that names it, for people.

    Raises:
        UsageError: another process holds it.
        OSError: the folder cannot be written.
    """
    path = (folder / LOCK).resolve()
    if path in _held:
        return
    file = path.open("a+")
    deadline, said = time.monotonic() + OTHERS_SECONDS, False
    while not _try(file):
        file.seek(0)
        holder = file.read().strip().replace(" ", " on ")
        is_other_machine = holder and not holder.endswith(f" {socket.gethostname()}")
        if not is_other_machine or time.monotonic() > deadline:
            file.close()
            raise UsageError(
                f"{flag}={folder}: process {holder or '(unknown)'} writes into it; wait until "
                f"it has ended, or say another folder"
            )
        if not said:
            print(f"waiting for process {holder} to let go of {folder}", flush=True)
            said = True
        time.sleep(_AGAIN_SECONDS)
    file.truncate(0)
    file.write(f"{os.getpid()} {socket.gethostname()}\n")
    file.flush()
    _held[path] = file


def may_be_held(folder: pathlib.Path) -> bool:
    """Whether the process that wrote into a run directory last lives, as far as is seen from here.

    Of one on another machine nothing is seen, so it may.
    """
    try:
        pid, host = (folder / LOCK).read_text().split()
        if host == socket.gethostname():
            os.kill(int(pid), 0)
    except PermissionError:  # another user's
        return True
    except (OSError, ValueError):
        return False
    return True


def _try(file: IO[str]) -> bool:
    with contextlib.suppress(BlockingIOError, PermissionError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
