"""The arrays that a replay is made of: in memory, or in files that outlive the process.

A file is mapped, not written to: what a killed process stored is kept by the operating system.
After a loss of power any page may be missing or old; `ps_dqn.replay.checksums` finds such rows.
"""

import fcntl
import json
import math
import os
import pathlib
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ps_dqn.errors import UsageError

FORMAT = 1  # of the files; raise it when the meaning of any array changes
LAYOUT = "layout.json"
LOCK = "lock"


class Arrays:
    """Named arrays, each allocated once; all of them in one folder or all in memory."""

    def __init__(
        self,
        folder: pathlib.Path | None,
        signature: dict[str, Any],
        must_be_there: bool = False,
    ):
        """Opens a folder, alone; earlier files of another layout are removed.

        Args:
            folder: where each array is a file; None: in memory.
            signature: everything the arrays' shapes and meaning depend on, as JSON can hold it.
            must_be_there: nothing is removed.

        Raises:
            UsageError: the folder cannot be written, or another process uses it, or nothing is
                there that can be used and something must be.
        """
        self._folder = folder
        self._arrays: dict[str, np.ndarray] = {}
        self._recorded: dict[str, Any] = {}  # of each array: shape and dtype
        self._unlock: Callable[[], object] | None = None
        self.was_there = False  # whether the arrays hold an earlier replay of this signature
        if folder is None:
            return
        # Also where nobody closes: a replay that is forgotten must not keep the folder.
        self._unlock = weakref.finalize(self, os.close, _lock(folder))
        # JSON has no tuples: what was written is compared with what would be written.
        self._signature = json.loads(json.dumps(signature))
        self._recorded, problem = self._read_layout(folder)
        self.was_there = bool(self._recorded)
        if must_be_there and not self.was_there:
            self._unlock()
            raise UsageError(f"{folder} {problem or 'holds no replay'}")
        if problem:
            print(f"replay: {folder} {problem}: it is removed and a new replay begins", flush=True)
            (folder / LAYOUT).unlink()
            for path in folder.glob("*.bin"):
                path.unlink()

    def add(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
        """An array of zeros, or of what is in its file.

        Memory is touched, and so taken, only where it is written; a file takes its place at once,
        for a disk that is full later would kill the process.

        Raises:
            UsageError: the disk has no room for it.
            ValueError: the name is taken.
        """
        if name in self._arrays:
            raise ValueError(f"{name}: there is such an array already")
        if self._folder is None:
            self._arrays[name] = np.zeros(shape, dtype)
            return self._arrays[name]
        wanted = [list(shape), np.dtype(dtype).str]
        if self._recorded.get(name) != wanted:
            _make_file(_path(self._folder, name), _num_bytes(wanted))
            self._recorded[name] = wanted
            self._write_layout(self._folder)
        self._arrays[name] = np.memmap(_path(self._folder, name), dtype, mode="r+", shape=shape)
        return self._arrays[name].view(np.ndarray)

    @property
    def nbytes(self) -> int:
        """Memory or disk of all arrays once they are full (bytes)."""
        return sum(array.nbytes for array in self._arrays.values())

    def flush(self) -> None:
        """Waits until everything is on the disk; only a loss of power makes this necessary."""
        for array in self._arrays.values():
            if isinstance(array, np.memmap):
                array.flush()

    def close(self) -> None:
        """Flushes and lets others have the folder; nothing may be written any more."""
        self.flush()
        self._arrays.clear()
        if self._unlock is not None:
            self._unlock()

    def _read_layout(self, folder: pathlib.Path) -> tuple[dict[str, Any], str]:
        """The arrays that can be used, and what is wrong if something but those is there."""
        try:
            layout = json.loads((folder / LAYOUT).read_text(encoding="utf-8"))
            recorded = layout["columns"]
            if layout["format"] != FORMAT:
                return {}, f"holds a replay of another format ({layout['format']}, now {FORMAT})"
            if layout["signature"] != self._signature:
                return {}, "holds a replay of another layout"
            for name, described in recorded.items():
                if _path(folder, name).stat().st_size != _num_bytes(described):
                    return {}, f"has a {name}.bin of a wrong size"
        except FileNotFoundError as error:
            if error.filename == str(folder / LAYOUT):
                return {}, ""
            return {}, f"has no {pathlib.Path(error.filename).name}"
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            return {}, f"has a {LAYOUT} that cannot be read ({error})"
        return recorded, ""

    def _write_layout(self, folder: pathlib.Path) -> None:
        layout = {"format": FORMAT, "signature": self._signature, "columns": self._recorded}
        temporary = folder / f"{LAYOUT}.tmp"
        temporary.write_text(json.dumps(layout, indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, folder / LAYOUT)


def _path(folder: pathlib.Path, name: str) -> pathlib.Path:
    return folder / f"{name}.bin"


def _num_bytes(described: list[Any]) -> int:
    shape, dtype = described
    # A file of no bytes cannot be mapped, so an array has at least one.
    return max(1, math.prod(shape) * np.dtype(dtype).itemsize)


def _lock(folder: pathlib.Path) -> int:
    """The descriptor of a locked file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UsageError(
            f"{folder}: a replay cannot be kept there ({error.strerror}): choose a folder of a "
            f"disk that can be written"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise UsageError(
            f"{folder}: another process keeps its replay there ({error.strerror}): end it or give "
            f"each worker a folder of its own"
        ) from None
    return lock


def _make_file(path: pathlib.Path, size: int) -> None:
    try:
        with path.open("wb") as file:
            if sys.platform == "linux":
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
    except OSError as error:
        raise UsageError(
            f"{path}: {size:,} bytes of a replay cannot be kept there ({error.strerror}): make "
            f"room or make the replay smaller"
        ) from None
