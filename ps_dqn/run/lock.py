"""One run at a time in a run directory: two would mix their rows and checkpoints."""

import contextlib
import fcntl
import os
import pathlib
import socket
import time
from typing import IO, NamedTuple

from ps_dqn.errors import FolderError

LOCK = "lock"
# One of another machine may have died with it; its file system needs time to let go: a server of
# NFSv4 usually waits for 90 s (seconds).
OTHERS_SECONDS = 120.0
_AGAIN_SECONDS = 0.5
_BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")

# Open for as long as this process lives, which holds the locks; children it forks do not.
_held: dict[pathlib.Path, IO[str]] = {}


def hold(folder: pathlib.Path, flag: str = "--run_dir") -> bool:
    """Keeps a run directory to this process until it ends, however it ends.

    Args:
        folder: it must exist.
        flag: that names it, for people.

    Returns:
        Whether this process did not hold it before.

    Raises:
        FolderError: another process holds it.
        OSError: the folder cannot be written.
    """
    path = (folder / LOCK).resolve()
    if path in _held:
        return False
    file = path.open("a+", encoding="utf-8")
    deadline, said = time.monotonic() + OTHERS_SECONDS, False
    while not _try(file):
        file.seek(0)
        holder = _Holder.read(file.read())
        if holder is None or holder.is_of_this_machine or time.monotonic() > deadline:
            file.close()
            raise FolderError(
                f"{flag}={folder}: process {holder or '(unknown)'} writes into it; wait until "
                f"it has ended, or say another folder"
            )
        if not said:
            print(f"waiting for process {holder} to let go of {folder}", flush=True)
            said = True
        time.sleep(_AGAIN_SECONDS)
    file.truncate(0)
    file.write(f"{os.getpid()} {socket.gethostname()} {boot()}\n")
    file.flush()
    _held[path] = file
    return True


def may_be_held(folder: pathlib.Path) -> bool:
    """Whether the process that wrote into a run directory last lives, as far as is seen from here.

    Of one on another machine nothing is seen, so it may.
    """
    path = (folder / LOCK).resolve()
    if path in _held:  # to open and close the file here would let go of it
        return True
    try:
        holder = _Holder.read(path.read_text(encoding="utf-8"))
        # Another container of the same machine has numbers of its own for its processes.
        if holder is None or holder.host != socket.gethostname():
            return holder is not None
        if not holder.is_of_this_machine:  # or this one has been started again since
            return not _is_free(path)
        os.kill(holder.pid, 0)
    except PermissionError:  # another user's
        return True
    except OSError:
        return False
    return True


def boot() -> str:
    """What no other machine has, nor this one after its next start; its name where nothing is.

    A name says little: all coordinators of Kubernetes have the same.
    """
    with contextlib.suppress(OSError):
        return _BOOT.read_text(encoding="utf-8").strip()
    return socket.gethostname()


class _Holder(NamedTuple):
    """Who has the lock, or had it last."""

    pid: int
    host: str
    boot: str

    @classmethod
    def read(cls, text: str) -> "_Holder | None":
        """What it has written; None where that is nothing, or not whole."""
        pid, host, started, *_ = *text.split(), "", "", ""
        return cls(int(pid), host, started) if pid.isdigit() else None

    @property
    def is_of_this_machine(self) -> bool:
        """Whether it is; versions of before told their host alone."""
        return self.boot == boot() if self.boot else self.host == socket.gethostname()

    def __str__(self) -> str:
        return f"{self.pid} on {self.host}"


def _is_free(path: pathlib.Path) -> bool:
    """Whether nobody holds it, where its file system says so."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    return False


def _try(file: IO[str]) -> bool:
    with contextlib.suppress(BlockingIOError, PermissionError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
