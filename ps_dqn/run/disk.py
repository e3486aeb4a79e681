"""Files of a run whose writing may fail: a disk may be full for a while, and training goes on."""

import os
from collections.abc import Callable


class Disk:
    """Writes, tells people where that fails, and counts."""

    def __init__(self, say: Callable[[str], None]):
        """Nothing has failed yet.

        Args:
            say: shows people a line.
        """
        self._say = say
        self._failing: set[str] = set()
        self.failures = 0

    def write(self, what: str, write: Callable[[], object]) -> bool:
        """Calls `write`; whether it worked.

        Args:
            what: is written, for people: a plural.
            write: tries it, and what it could not write before; raises OSError where that fails.
        """
        try:
            write()
        except OSError as error:
            self.failures += 1
            if what not in self._failing:
                self._failing.add(what)
                self._say(
                    f"{what} cannot be written ({reason(error)}): training goes on, and it is "
                    f"tried again"
                )
            return False
        if what in self._failing:
            self._failing.remove(what)
            self._say(f"{what} are written again")
        return True


class Appended:
    """A file that grows by whole pieces: what could not be written is kept, and comes first."""

    def __init__(self, path: str | os.PathLike[str]):
        """Opens it for appending."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = os.lseek(self._descriptor, 0, os.SEEK_END)
        self._waiting = b""

    def write(self, piece: bytes) -> None:
        """Adds a piece.

        Raises:
            OSError: nothing was added; the piece waits for the next call.
        """
        self._waiting += piece
        try:
            written = os.pwrite(self._descriptor, self._waiting, self._size)
            if written < len(self._waiting):  # the next one says why
                os.pwrite(self._descriptor, self._waiting[written:], self._size + written)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(self._waiting)
        self._waiting = b""

    def close(self) -> None:
        """Closes it, whatever waits."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def reason(error: OSError) -> str:
    """Why, for people."""
    return error.strerror or str(error)
