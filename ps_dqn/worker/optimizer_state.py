"""A worker's local optimizer on its disk, so that it resumes where it was killed or stopped."""

import pathlib
import zipfile
import zlib

import numpy as np

NAME = "optimizer.npz"
# What NumPy and zipfile raise for a file that is cut off or damaged.
_DAMAGE = (EOFError, KeyError, OSError, ValueError, zipfile.BadZipFile, zlib.error)


def save(folder: pathlib.Path, optimizer: str, slots: np.ndarray, steps: int) -> None:
    """Replaces what is there; a process that is killed meanwhile leaves the old file.

    Args:
        folder: the worker's; it exists.
        optimizer: its name.
        slots: float32 [S, P].
        steps: that the optimizer has made.
    """
    temporary = folder / f"{NAME}.tmp"
    with temporary.open("wb") as file:
        np.savez(file, optimizer=np.array(optimizer), slots=slots, steps=np.int64(steps))
    temporary.replace(folder / NAME)


def load(folder: pathlib.Path, optimizer: str, shape: tuple[int, int]) -> tuple[np.ndarray, int]:
    """What was saved last, or zeros where there is nothing that fits.

    Args:
        folder: the worker's.
        optimizer: its name.
        shape: S and P.

    Returns:
        Slots, float32 [S, P], and the steps made.
    """
    path = folder / NAME
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            name, slots, steps = str(data["optimizer"]), data["slots"], int(data["steps"])
    except FileNotFoundError:
        return np.zeros(shape, np.float32), 0
    except _DAMAGE as error:
        print(f"{path} cannot be read ({error}): the optimizer starts afresh", flush=True)
        return np.zeros(shape, np.float32), 0
    if (name, slots.shape, slots.dtype) != (optimizer, shape, np.float32):
        print(f"{path} is of another network or optimizer: it starts afresh", flush=True)
        return np.zeros(shape, np.float32), 0
    return slots, steps
