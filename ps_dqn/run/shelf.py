"""A snapshot in memory that processes share which are forks of one: it outlives who has put it."""

import mmap
import os
import struct
from typing import NamedTuple

import numpy as np

from ps_dqn.state import State

_HEADER = struct.Struct("<qd")  # which place has the newest, 0 for none; training when it was taken


class Shelved(NamedTuple):
    """What was put there last."""

    state: State
    seconds: float  # of training, when it was taken


class Shelf:
    """Two places, of which one has the newest while the other is written."""

    def __init__(self) -> None:
        """Is empty; made by the process whose forks share it. Linux only."""
        self._header = mmap.mmap(-1, _HEADER.size)
        self._places = [os.memfd_create("snapshot") for _ in range(2)]

    def put(self, state: State, seconds: float) -> None:
        """Replaces what is there; whoever is killed meanwhile leaves the one before.

        Args:
            state: of the parameter servers.
            seconds: of training, when it was taken.
        """
        newest, _ = _HEADER.unpack(self._header[:])
        place = 1 if newest == 2 else 2
        vectors, numbers, log = state.as_arrays()
        with open(self._places[place - 1], "wb", closefd=False) as file:
            file.seek(0)
            np.savez(file, vectors=vectors, numbers=numbers, log=np.array(log))
            file.truncate()
        self._header[:] = _HEADER.pack(place, seconds)

    def get(self) -> Shelved | None:
        """The newest, or None where nothing was put yet."""
        place, seconds = _HEADER.unpack(self._header[:])
        if not place:
            return None
        # Opened anew: who has put it shares the place in a file that is handed down.
        with np.load(f"/proc/self/fd/{self._places[place - 1]}") as found:
            log = str(found["log"]).encode()
            return Shelved(State.from_arrays(found["vectors"], found["numbers"], log), seconds)

    def close(self) -> None:
        """Gives the memory back, once all who share it have."""
        self._header.close()
        for place in self._places:
            os.close(place)
