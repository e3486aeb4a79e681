"""Files of a run whose writing may fail: a disk may be full for a while, and training goes on."""

import contextlib
import itertools
import os
import pathlib
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator

from ps_dqn.run import stages

# What NumPy and zipfile raise for an archive with damaged bytes, wherever those are.
DAMAGE = (
    AttributeError,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
# Tries at the end of a run, and from one to the next (seconds).
LAST_TRIES, LAST_PAUSE = 3, 1.0


class Disk:
    """Writes, tells people where that fails or takes its time, and counts."""

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
        why = self._tried(what, write)
        if why and what not in self._failing:
            self._failing.add(what)
            self._say(f"{what} cannot be written ({why}): training goes on, and it is tried again")
        return not why

    def write_last(self, what: str, write: Callable[[], object]) -> str:
        """Likewise at the end of a run, in several tries; why none worked, or no text."""
        for _ in range(LAST_TRIES - 1):
            if not self._tried(what, write):
                return ""
            time.sleep(LAST_PAUSE)
        return self._tried(what, write)

    def _tried(self, what: str, write: Callable[[], object]) -> str:
        """Why it did not work, or no text."""
        try:
            with stages.told(f"writing {what}", self._say):
                write()
        except OSError as error:
            self.failures += 1
            return reason(error) or type(error).__name__
        if what in self._failing:
            self._failing.remove(what)
            self._say(f"{what} are written again")
        return ""


class Appended:
    """A file that grows by whole pieces: what could not be written is kept, and comes first."""

    def __init__(self, path: str | os.PathLike[str]):
        """Opens it for appending."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = os.lseek(self._descriptor, 0, os.SEEK_END)
        self._waiting = b""

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing, and nothing waits."""
        return not self._size and not self._waiting

    def add(self, piece: bytes) -> None:
        """Adds a piece to what waits for the next `flush`."""
        self._waiting += piece

    def write(self, piece: bytes) -> None:
        """Adds a piece and writes it: see `flush`."""
        self.add(piece)
        self.flush()

    def keep(self, is_wanted: Callable[[bytes], bool]) -> None:
        """Drops the lines, their ends included, that are not wanted; that needs no room.

        The file is cut off before the first of them, and what follows waits for the next `flush`.
        """
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            lines = (file.read(self._size) + self._waiting).splitlines(keepends=True)
        same = sum(map(len, itertools.takewhile(is_wanted, lines)))
        if same < self._size:
            os.ftruncate(self._descriptor, same)
            self._size = same
        self._waiting = b"".join(line for line in lines if is_wanted(line))[self._size :]

    def flush(self) -> None:
        """Writes what waits.

        Raises:
            OSError: nothing was written, and all of it waits for the next call.
        """
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


@contextlib.contextmanager
def beside(path: pathlib.Path, temporary: pathlib.Path | None = None) -> Iterator[pathlib.Path]:
    """Gives a place beside a file's, to write to in a block; its end renames what is there.

    So the file is whole, or what it was before; also where the machine loses its power, as what was
    written is on the disk before it has its name.

    Args:
        path: the file's.
        temporary: the place, in the same folder; None: one that is named after the file.
    """
    temporary = temporary or path.with_name(f"{path.stem}.tmp{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # on a full disk, its room is needed
        raise


def reason(error: OSError) -> str:
    """Why, for people."""
    return error.strerror or str(error)
