"""Checkpoints on the coordinator's disk: the newest few, and the best.

A checkpoint is one NumPy `.npz` file with the whole flat vectors, so it does not depend on the
number of parameter servers and can be read without TensorFlow. It is written beside its place and
renamed, so a file with its final name is whole.
"""

import contextlib
import dataclasses
import math
import os
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ps_dqn.errors import FolderError, UsageError
from ps_dqn.run import directory, disk
from ps_dqn.state import Counters, State


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A saved state and what is known about it.

    The network to use is `state.average`: it is what evaluations are made with.
    """

    path: pathlib.Path
    state: State
    seconds: float  # training so far
    eval_return: float  # mean of the evaluation it was saved for; NaN where there was none


class Checkpoints:
    """The checkpoints of one run directory, which threads save one after another.

    Attributes:
        is_writing: whether one is being written.
        last_sign: when that has begun, or ended, for the last time (`time.monotonic()`).
    """

    def __init__(self, folder: pathlib.Path, keep: int):
        self._folder = folder
        self._keep = keep
        self.skipped: list[str] = []  # checkpoints that could not be read, and why
        self.is_writing, self.last_sign = False, -math.inf
        self._lock = threading.Lock()

    def save_newest(self, state: State, seconds: float) -> pathlib.Path:
        """Saves a state to resume from and removes the oldest beyond `keep`.

        Raises:
            OSError: it cannot be written; those before it are there still.
        """
        with self._writing():
            return self._save_newest(state, seconds)

    def save_newer(self, state: State, seconds: float) -> bool:
        """Likewise, unless the newest is as new by then; whether it saved."""
        with self._writing():
            if state.counters.updates <= self.newest_updates:
                return False
            self._save_newest(state, seconds)
            return True

    def save_best(self, state: State, seconds: float, eval_return: float) -> pathlib.Path:
        """Saves the parameters an evaluation was made with, replacing the best so far."""
        path = self._folder / directory.BEST
        with self._writing():
            _write(path, state, seconds, eval_return)
        return path

    @property
    def newest_updates(self) -> int:
        """Updates of the newest, whole or not; -1 where there is none."""
        names = [path.stem for path in self._newest_first()[:1]]
        return int(names[0].rpartition("-")[2]) if names else -1

    @property
    def age(self) -> float:
        """Since the newest was written, or since there is a place for one (seconds)."""
        written = self._newest_first()[:1] or [self._folder]
        try:
            return max(time.time() - written[0].stat().st_mtime, 0.0)
        except OSError:  # nothing is there yet
            return 0.0

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None where there is none at all.

        Raises:
            UsageError: there are checkpoints, and all are damaged.
            FolderError: none can be read, and the disk may be why.
        """
        paths, ill = self._newest_first(), None
        for path in paths:
            try:
                return load(path)
            except UsageError as error:
                ill = error if isinstance(error, FolderError) else ill
                if str(error) not in self.skipped:
                    self.skipped.append(str(error))
        if ill is not None:
            raise ill
        if paths:
            raise UsageError(f"no checkpoint in {self._folder} can be read: all are damaged")
        return None

    def best(self) -> Checkpoint | None:
        """The best checkpoint, or None."""
        path = self._folder / directory.BEST
        return load(path) if path.exists() else None

    def best_return(self) -> float:
        """The return of the best checkpoint; minus infinity where there is none that is whole."""
        try:
            best = self.best()
        except UsageError as error:
            self.skipped.append(str(error))
            return -math.inf
        return best.eval_return if best else -math.inf

    def find(self, name: str) -> Checkpoint:
        """The checkpoint that `--checkpoint=best` or `newest` names.

        Raises:
            UsageError: there is none, or it cannot be read.
        """
        checkpoint = self.best() if name == "best" else self.newest()
        if checkpoint is None:
            raise UsageError(f"--checkpoint={name}: there is none in {self._folder.parent} yet")
        return checkpoint

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self.is_writing, self.last_sign = True, time.monotonic()
            try:
                yield
            finally:
                self.last_sign = time.monotonic()  # before it is no longer written: see `Signals`
                self.is_writing = False

    def _save_newest(self, state: State, seconds: float) -> pathlib.Path:
        path = self._folder / f"updates-{state.counters.updates:012d}.npz"
        _write(path, state, seconds, float("nan"))
        for old in self._newest_first()[self._keep :]:
            old.unlink()
        return path

    def _newest_first(self) -> list[pathlib.Path]:
        return sorted(self._folder.glob("updates-*.npz"), reverse=True)


def load(path: pathlib.Path) -> Checkpoint:
    """Reads a checkpoint.

    Raises:
        UsageError: the file is damaged.
        FolderError: the disk does not give it.
    """
    try:
        # Opened here: NumPy leaves a file open when its archive is cut off.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            slots = tuple(data[f"slot_{i}"] for i in range(int(data["num_slots"])))
            counters = _counters(data["counters"])
            vectors = (data["online"], data["target"], data["average"])
            moments = data["moments"] if "moments" in data else np.zeros(0, np.int64)
            begun_at = int(data["begun_at"]) if "begun_at" in data else 0
            scale = int(data["loss_scale"]) if "loss_scale" in data else 0
            whole = (*vectors, slots, counters, begun_at)
            number = int(data["mask_number"]) if "mask_number" in data else 0
            size = len(vectors[0]) if number else 0
            bits = data["mask"] if number else np.zeros(0, np.uint8)
            mask = np.unpackbits(bits, count=size).astype(np.float32)
            state = State(
                *whole,
                moments=moments,
                loss_scale=scale,
                mask_number=number,
                mask=mask,
                slots_of=str(data["slots_of"]) if "slots_of" in data else "",
            )
            return Checkpoint(path, state, float(data["seconds"]), float(data["eval_return"]))
    except disk.DAMAGE as error:
        is_of_disk = isinstance(error, OSError) and error.errno is not None
        kind = FolderError if is_of_disk else UsageError
        raise kind(f"checkpoint {path} cannot be read: {error}") from None


def _counters(numbers: np.ndarray) -> Counters:
    """The saved counters; the first checkpoints had no sequential updates, which then were all."""
    version, updates, *others = (int(each) for each in numbers)
    if len(others) < len(Counters._fields) - 2:
        others.append(updates)
    return Counters(version, updates, *others)


def _write(path: pathlib.Path, state: State, seconds: float, eval_return: float) -> None:
    writer = f"{os.getpid()}-{threading.get_native_id()}"
    temporary = path.with_name(f"{path.stem}.{writer}{directory.UNFINISHED}")
    arrays: dict[str, Any] = {
        "online": state.online,
        "target": state.target,
        "average": state.average,
        **{f"slot_{i}": slot for i, slot in enumerate(state.slots)},
        "num_slots": len(state.slots),
        "slots_of": state.slots_of,
        "counters": np.array(state.counters, np.int64),
        "begun_at": state.begun_at,
        "loss_scale": state.loss_scale,
        "moments": state.moments,
        "mask_number": state.mask_number,
        "mask": np.packbits(state.mask > 0),
        "seconds": seconds,
        "eval_return": eval_return,
    }
    with disk.beside(path, temporary), temporary.open("wb") as file:
        np.savez(file, **arrays)
