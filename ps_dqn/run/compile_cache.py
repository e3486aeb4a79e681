"""Keeps what XLA compiles on disk, so that other workers and later runs need not compile it again.

TensorFlow names a file by the program that it compiled, compares the whole program when it loads
one, and renames a finished file into its place. So processes may share a folder while they write.
"""

import contextlib
import glob
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import tempfile

from ps_dqn.errors import UsageError

VARIABLE = "TF_XLA_FLAGS"
OPTION = "tf_xla_persistent_cache_directory"
FILES = "xla_compile_cache__*"  # as TensorFlow names them
# What a folder keeps (files of about 0.6 MB).
MOST_FILES = 100
# What must be free (bytes): TensorFlow's update fails where it cannot write.
ROOM = 4 * 2**20
# What TensorFlow is installed as.
DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu")
AUTO = "auto"
# Names are numbered from a multiple of it on: more than is made before.
NAMES = 10_000
CPUINFO = pathlib.Path("/proc/cpuinfo")


def use(folder: str) -> None:
    """Has TensorFlow keep compiled code, in this process and in those that it starts.

    TensorFlow must not be imported yet. Nothing changes where `TF_XLA_FLAGS` names a folder
    already. Code is kept apart by what it was compiled by and for: a home may be shared by unlike
    machines. Only code for processors is kept, none for GPUs.

    Args:
        folder: where; `auto`: `ps_dqn` in `$XDG_CACHE_HOME` or `~/.cache`, or nowhere if that
            cannot be written; empty: nowhere.

    Raises:
        UsageError: a folder that was named cannot be written.
    """
    words = os.environ.get(VARIABLE, "")
    # Without a leading dash it is the name of a file with flags.
    if OPTION in words or (words and not words.lstrip().startswith("-")):
        return
    directory = _prepared(folder) if folder else None
    # Even nowhere is said: tasks that are started from here have no such flag of their own.
    name = str(directory or "").replace("\\", "\\\\").replace('"', '\\"')
    ours = f'--{OPTION}="{name}" --tf_xla_persistent_cache_device_types=CPU'
    os.environ[VARIABLE] = f"{words} {ours}".strip()


def settle_names() -> None:
    """Gives the functions that are traced next the same names in every process.

    TensorFlow finds compiled code by the name of what was compiled, and names a function by the
    number of all that it has made before: tensors and operations of networks, seeds and servers.
    """
    from tensorflow.python.framework import ops

    while (ops.uid() + 1) % NAMES:
        pass


def _prepared(folder: str) -> pathlib.Path | None:
    """The folder in `folder` for code of this TensorFlow and this machine, if it can be written."""
    try:
        root = _default_root() if folder == AUTO else pathlib.Path(folder).expanduser().resolve()
        directory = root / f"xla-{_fingerprint()}"
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(ROOM))
    except (OSError, RuntimeError, importlib.metadata.PackageNotFoundError) as error:
        if folder == AUTO:
            return None
        what = getattr(error, "strerror", None) or error
        raise UsageError(
            f"--compile_cache={folder}: cannot be written ({what}): name another folder, or leave "
            f"it empty to keep no compiled code"
        ) from None
    _prune(root)
    return directory


def _default_root() -> pathlib.Path:
    """Where programs of this user keep what they can make again."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path is to be ignored, says the XDG Base Directory Specification.
    root = pathlib.Path(base) if os.path.isabs(base) else pathlib.Path.home() / ".cache"
    return root / "ps_dqn"


def _fingerprint() -> str:
    """A hash of all that compiled code depends on and TensorFlow's file names do not tell."""
    parts = (_tensorflow(), _processor(), str(num_cpus()), os.environ.get("XLA_FLAGS", ""))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _tensorflow() -> str:
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{name} {importlib.metadata.version(name)}"
    raise importlib.metadata.PackageNotFoundError(" or ".join(DISTRIBUTIONS))


def _processor() -> str:
    """Its model and instructions: code for another one may crash."""
    with contextlib.suppress(OSError):
        first = CPUINFO.read_text().partition("\n\n")[0]
        names = ("model name", "flags", "Features")
        found = [line for line in first.splitlines() if line.startswith(names)]
        if found:
            return "\n".join(found)
    return f"{platform.machine()} {platform.processor()}"


def num_cpus() -> int:
    """How many this process may use, over which XLA spreads large loops."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _prune(root: pathlib.Path) -> None:
    """Removes the oldest files, of other machines and versions too; others may do it as well.

    And empty ones, with which TensorFlow fails: a machine that loses its power may leave them.
    """
    sizes = {}
    # Unlike pathlib's, this one passes over folders that are gone when it comes to them.
    for name in glob.glob(f"xla-*/{FILES}", root_dir=root):
        path = root / name
        with contextlib.suppress(OSError):
            status = path.stat()
            sizes[status.st_mtime, path] = status.st_size
    oldest = sorted(sizes)[:-MOST_FILES]
    for _, path in [*oldest, *(each for each, size in sizes.items() if size == 0)]:
        with contextlib.suppress(OSError):
            path.unlink()
            path.parent.rmdir()  # if it was the last one
