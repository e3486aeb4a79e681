"""A worker's local optimizer, and how it is on its disk: it resumes where it was killed or stopped.

Shapes: S slots, P parameters.
"""

import pathlib

import numpy as np

from ps_dqn.run import disk
from ps_dqn.run.disk import Disk
from ps_dqn.worker.tally import Tally

NAME = "optimizer.npz"


class LocalOptimizer:
    """What it keeps from update to update, and to which parameters that belongs.

    Attributes:
        slots: float32 [S, P].
        steps: that were made with them.
    """

    def __init__(
        self, name: str, shape: tuple[int, int], folder: pathlib.Path | None, tally: Tally
    ):
        """Takes what was saved, if it fits, or begins.

        Args:
            name: of the optimizer.
            shape: S and P.
            folder: the worker's, which exists; None keeps it in memory.
            tally: counts writes that fail.
        """
        self._name, self._folder, self._tally = name, folder, tally
        self._disk = Disk(lambda line: print(line, flush=True))  # into the log
        self.slots, self.steps, self._resets = np.zeros(shape, np.float32), 0, 0
        if folder is not None:
            self.slots, self.steps, self._resets = load(folder, name, shape)

    def follow(self, resets: int) -> None:
        """Begins anew with parameters that had another number of resets than those before."""
        if resets != self._resets:
            self.slots, self.steps, self._resets = np.zeros_like(self.slots), 0, resets

    def update(self, slots: np.ndarray, updates: int) -> None:
        """Takes over what so many updates have made of it, float32 [S, P]."""
        self.slots, self.steps = slots, self.steps + updates

    def save(self) -> bool:
        """Writes it to the disk, if it has a folder and that has room; whether it was written."""
        if self._folder is None:
            return False
        whose = self._folder, self._name, self.slots, self.steps, self._resets
        is_written = self._disk.write("optimizer files", lambda: save(*whose))
        self._tally.add("failed_writes", not is_written)
        return is_written


def save(
    folder: pathlib.Path, optimizer: str, slots: np.ndarray, steps: int, resets: int = 0
) -> None:
    """Replaces what is there; a process that is killed meanwhile leaves the old file.

    Args:
        folder: the worker's; it exists.
        optimizer: its name.
        slots: float32 [S, P].
        steps: that the optimizer has made.
        resets: of the parameters that it is for.

    Raises:
        OSError: it cannot be written, and the old file is as it was.
    """
    temporary = folder / f"{NAME}.tmp"
    try:
        with temporary.open("wb") as file:
            np.savez(
                file,
                optimizer=np.array(optimizer),
                slots=slots,
                steps=np.int64(steps),
                resets=np.int64(resets),
            )
        temporary.replace(folder / NAME)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def load(
    folder: pathlib.Path, optimizer: str, shape: tuple[int, int]
) -> tuple[np.ndarray, int, int]:
    """What was saved last, or zeros where there is nothing that fits.

    Args:
        folder: the worker's.
        optimizer: its name.
        shape: S and P.

    Returns:
        Slots, float32 [S, P], the steps made, and the resets of the parameters that it is for.
    """
    path = folder / NAME
    fresh = np.zeros(shape, np.float32), 0, 0
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            name, slots, steps = str(data["optimizer"]), data["slots"], int(data["steps"])
            resets = int(data["resets"]) if "resets" in data else 0
    except FileNotFoundError:
        return fresh
    except disk.DAMAGE as error:
        print(f"{path} cannot be read ({error}): the optimizer starts afresh", flush=True)
        return fresh
    if (name, slots.shape, slots.dtype) != (optimizer, shape, np.float32):
        print(f"{path} is of another network or optimizer: it starts afresh", flush=True)
        return fresh
    return slots, steps, resets
