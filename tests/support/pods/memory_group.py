"""A control group that limits a pod's memory, of either version of control groups."""

import contextlib
import os
import pathlib
import signal
import time

from support.pods import network

_MOUNT = pathlib.Path("/sys/fs/cgroup")
_SECONDS = 10.0


class MemoryGroup:
    """A group of processes that may use so much memory together."""

    def __init__(self, name: str, limit: int):
        """Makes the group, without a process.

        Args:
            name: of the pod.
            limit: most memory (bytes).
        """
        parent, file = _parent()
        self.folder = parent / f"{network.mark()}{name}"
        self.folder.mkdir()
        (self.folder / file).write_text(str(limit))

    @property
    def seen_at(self) -> pathlib.Path:
        """Where a process in the group sees it, as in a container."""
        return _MOUNT if _unified() else _MOUNT / "memory"

    @property
    def joining(self) -> list[str]:
        """A command that joins the group and becomes the command that comes after it."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.folder / "cgroup.procs")]

    def close(self) -> None:
        """Kills what is in the group and removes it."""
        _remove(self.folder)


def made_here() -> list[str]:
    """The groups this process has."""
    return [path.name for path in _parent()[0].glob(f"{network.mark()}*")]


def clear_leftovers() -> None:
    """Removes the groups of processes that are gone, whatever groups those were in."""
    # A walk, unlike a pattern, passes over groups that go meanwhile.
    found = [pathlib.Path(parent, name) for parent, names, _ in os.walk(_MOUNT) for name in names]
    for folder in found:
        if network.is_leftover(folder.name):
            with contextlib.suppress(FileNotFoundError):  # another test process was quicker
                _remove(folder)


def unavailable() -> str:
    """Why no group can be made here, or an empty text."""
    try:
        parent, _ = _parent()
    except OSError as error:
        return f"no memory control group: {error}"
    return "" if os.access(parent, os.W_OK) else f"{parent} cannot be written"


def _unified() -> bool:
    return (_MOUNT / "cgroup.controllers").exists()


def _parent() -> tuple[pathlib.Path, str]:
    """The folder groups are made in, and the name of the file with the limit.

    Of version 1 that is this process's own group. In version 2 a group that has processes cannot
    have groups with limits, unless it is the outermost one.

    Raises:
        OSError: there is none.
    """
    if _unified():
        (_MOUNT / "cgroup.subtree_control").write_text("+memory")
        return _MOUNT, "memory.max"
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if "memory" in controllers.split(","):
            return _MOUNT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
    raise OSError("memory is not among this process's control groups")


def _remove(folder: pathlib.Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while folder.exists():
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            folder.rmdir()
        except OSError:  # busy, until the last process in it is gone
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
