"""Keeps what XLA compiles on disk, so that other workers and later runs need not compile it again.

TensorFlow names a file by the program that it compiled, compares the whole program when it loads
one, and renames a finished file into its place. So processes may share a folder while they write.

It trusts what it finds: a run ends with an error, or goes on with wrong numbers, where a file was
damaged. So files are sealed once they are written, and removed where a process begins and finds
that they do not fit their seals.
"""

import contextlib
import glob
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import re
import sys
import tempfile
import time

from ps_dqn.errors import UsageError

VARIABLE = "TF_XLA_FLAGS"
OPTION = "tf_xla_persistent_cache_directory"
# What `seal` looks after, for this process and those that it starts.
SEALED = "PS_DQN_SEALED_CODE"
FILES = "xla_compile_cache__*"  # as TensorFlow names them
WHOLE = f"{FILES}.pb"  # those that it has renamed
SEAL = "sha256__"  # before a file's name: its seal
# Whoever has written a file seals it within (seconds), or has been killed.
SEALED_WITHIN = 60
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
# When the folders changed last, as `seal` found them (ns).
_looked_at: dict[pathlib.Path, int] = {}


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
    name = str(directory or "")
    os.environ.update({VARIABLE: f"{words} {_flags(name)}".strip(), SEALED: name})


def forget() -> dict[str, str]:
    """Has tasks that this process starts from now on keep no compiled code, and find none.

    Returns:
        What is in their environment for it; empty where none was kept already.
    """
    words = os.environ.get(VARIABLE, "")
    # Of a flag that is there twice TensorFlow takes the last one.
    if re.findall(rf'{OPTION}=("[^"]*"|\S*)', words)[-1:] in ([], [""], ['""']):
        return {}
    told = {VARIABLE: f"{words} {_flags('')}", SEALED: ""}
    os.environ.update(told)
    return told


def seal() -> None:
    """Keeps checksums of what was compiled by now, in this process or others.

    A process that begins takes what has one for whole; so this is to be called where something may
    just have been compiled. It looks no further than at the folder's time where nothing was.
    """
    directory = pathlib.Path(os.environ.get(SEALED, ""))
    with contextlib.suppress(OSError):  # what has no seal is compiled anew
        changed = directory.stat().st_mtime_ns
        if directory.is_absolute() and _looked_at.get(directory) != changed:
            for path in directory.glob(WHOLE):
                _seal(path)
            _looked_at[directory] = changed


def settle_names() -> None:
    """Gives the functions that are traced next the same names in every process.

    TensorFlow finds compiled code by the name of what was compiled, and names a function by the
    number of all that it has made before: tensors and operations of networks, seeds and servers.
    """
    from tensorflow.python.framework import ops

    while (ops.uid() + 1) % NAMES:
        pass


def _flags(name: str) -> str:
    """What TensorFlow is told of a folder; without a name: of none."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'--{OPTION}="{quoted}" --tf_xla_persistent_cache_device_types=CPU'


def _prepared(folder: str) -> pathlib.Path | None:
    """The folder in `folder` for code of this TensorFlow and this machine, if it can be written."""
    try:
        root = _default_root() if folder == AUTO else pathlib.Path(folder).expanduser().resolve()
        directory = root / f"xla-{_fingerprint()}"
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(ROOM))
        damaged = _remove_damaged(directory)
    except (OSError, RuntimeError, importlib.metadata.PackageNotFoundError) as error:
        if folder == AUTO:
            return None
        what = getattr(error, "strerror", None) or error
        raise UsageError(
            f"--compile_cache={folder}: cannot be written ({what}): name another folder, or leave "
            f"it empty to keep no compiled code"
        ) from None
    if damaged:
        print(
            f"compiled code in {directory} does not fit its checksums (files: {damaged}): it is "
            f"removed, and compiled anew where it is needed",
            file=sys.stderr,
            flush=True,
        )
    _prune(root)
    return directory


def _seal(path: pathlib.Path) -> None:
    """Seals a file that is new; one that was changed in its place is not."""
    with path.open("rb") as file:
        number = b"%d" % os.fstat(file.fileno()).st_ino
        if _read_seal(path)[1:] != [number]:
            # One that is cut off is a wrong one.
            _seal_of(path).write_bytes(b"%s %s\n" % (_checksum(path.name, file.read()), number))


def _remove_damaged(directory: pathlib.Path) -> int:
    """Removes what does not fit its seal or has none; how many did not fit.

    Raises:
        OSError: it cannot.
    """
    damaged = 0
    for path in directory.glob(WHOLE):
        with contextlib.suppress(FileNotFoundError):  # others remove them too
            sealed = _read_seal(path)
            is_new = 0 <= time.time() - path.stat().st_mtime < SEALED_WITHIN
            fits = sealed[:1] == [_checksum(path.name, path.read_bytes())]
            if not fits and (sealed or not is_new):
                damaged += bool(sealed)
                path.unlink()
    for path in directory.glob(f"{SEAL}*"):
        if not path.with_name(path.name.removeprefix(SEAL)).exists():
            path.unlink(missing_ok=True)
    return damaged


def _seal_of(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{SEAL}{path.name}")


def _read_seal(path: pathlib.Path) -> list[bytes]:
    """A file's checksum and the number of its inode, which a new one has not; empty: none."""
    try:
        return _seal_of(path).read_bytes().split()
    except FileNotFoundError:
        return []


def _checksum(name: str, content: bytes) -> bytes:
    """Of the name too: a file in another's place is damage."""
    return hashlib.sha256(name.encode() + b"\n" + content).hexdigest().encode()


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
        first = CPUINFO.read_text(encoding="utf-8").partition("\n\n")[0]
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
            _seal_of(path).unlink(missing_ok=True)
            path.parent.rmdir()  # if it was the last one
