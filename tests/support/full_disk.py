"""A disk that has no room left."""

import errno
import os

import pytest


def full() -> None:
    """Raises what a write to such a disk does."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullDisk:
    """`os.pwrite` with so much room left in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int):
        self.room, self._write = room, os.pwrite
        monkeypatch.setattr(os, "pwrite", self._pwrite)

    def _pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if not self.room:
            full()
        written = self._write(descriptor, data[: self.room], offset)
        self.room -= written
        return written
