"""Where a command is to write: tried before the command does what takes long."""

import pathlib
import tempfile

from ps_dqn.errors import UsageError


def check_file(path: pathlib.Path, subject: str) -> None:
    """Refuses a file that cannot be written, and makes its folder; a file that is there stays.

    Args:
        path: of the file.
        subject: the flag and its value, for people.

    Raises:
        UsageError: with the subject and why.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise UsageError(f"{subject}: cannot be written ({error.strerror})") from None


def make_folder(path: pathlib.Path, subject: str) -> None:
    """Makes a folder, if need be, and refuses one in which no file can be written.

    Args:
        path: of the folder.
        subject: the flag and its value, for people.

    Raises:
        UsageError: with the subject and why.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise UsageError(f"{subject}: cannot be written ({error.strerror})") from None
