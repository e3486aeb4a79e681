"""What a run was made with, kept in its folder: versions, machine, code and command line."""

import contextlib
import datetime
import importlib.metadata
import os
import pathlib
import platform
import shlex
import sys

from ps_dqn import __version__
from ps_dqn.errors import not_written
from ps_dqn.run import directory

PACKAGES = ("tensorflow", "keras", "numpy", "gymnasium")
_ROOT = pathlib.Path(__file__).resolve().parents[2]


def write(folder: pathlib.Path) -> None:
    """Adds this process to a run's environment.txt: a run that is resumed has several.

    It takes a few milliseconds: nothing is imported or started for it.

    Raises:
        FolderError: the file cannot be written.
    """
    try:
        path = folder / directory.ENVIRONMENT
        # The bytes of a command line need be no text.
        with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
            separator = "\n" if file.tell() else ""
            lines = [f"{name}: {value}\n" for name, value in describe().items()]
            file.write(separator + "".join(lines))
    except OSError as error:
        raise not_written(folder, error) from None


def describe() -> dict[str, str]:
    """What this process is, by name, as people read it."""
    system = platform.uname()
    commit = commit_of(_ROOT)
    return {
        "started": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(sys.orig_argv),
        "ps-dqn": f"{__version__}, commit {commit}" if commit else __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "host": system.node,
        "platform": f"{system.system} {system.release} {system.machine}",
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
    }


def commit_of(root: pathlib.Path) -> str:
    """The Git commit that a folder has checked out; no text where it is not a repository's.

    Git is not started for it, and whether files were changed since is not known.
    """
    with contextlib.suppress(OSError, ValueError):
        git = root / ".git"
        if git.is_file():  # of a further work tree
            pointer = git.read_text(encoding="utf-8").strip()
            git = (root / pointer.removeprefix("gitdir: ")).resolve()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        return _read_ref(git, head.removeprefix("ref: "))
    return ""


def _read_ref(git: pathlib.Path, name: str) -> str:
    common = git / "commondir"
    shared = git / common.read_text(encoding="utf-8").strip() if common.exists() else git
    for folder in (git, shared):
        if (folder / name).exists():
            return (folder / name).read_text(encoding="utf-8").strip()
    packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
    return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
