"""Paths as people name them: `~` is a home folder, and not every place may be looked at."""

import contextlib
import errno
import os
import pathlib
from collections.abc import Iterator

from ps_dqn.errors import FolderError, UsageError


def named(flag: str, text: str | os.PathLike[str]) -> pathlib.Path:
    """The path that a person names; to ask whether it or something in it exists raises no error.

    Args:
        flag: by which it is named; no text: by a word alone.
        text: the flag's value.

    Raises:
        UsageError: there cannot be such a path.
        FolderError: what is there cannot be looked at.
    """
    subject = f"{flag}={os.fspath(text)}" if flag else os.fspath(text)
    if "\0" in subject:
        raise UsageError(f"{subject!r}: is no path (it holds a null character)")
    with looking(subject):
        try:
            path = pathlib.Path(text).expanduser()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.stat(os.path.join(path, "."))  # in it too, where it is a folder
        except RuntimeError as error:  # nobody's home
            raise UsageError(f"{subject}: is no path ({str(error).rstrip('.')})") from None
    return path


@contextlib.contextmanager
def looking(subject: str) -> Iterator[None]:
    """Refuses what the file system keeps from being looked at in a block.

    Args:
        subject: the flag and its value, for people.

    Raises:
        UsageError: there cannot be such a path.
        FolderError: what is there cannot be looked at.
    """
    try:
        yield
    except OSError as error:
        kind = UsageError if error.errno == errno.ENAMETOOLONG else FolderError
        raise kind(f"{subject}: cannot be looked at ({error.strerror})") from None
