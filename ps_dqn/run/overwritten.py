"""Files of a run that it writes anew when it goes on; where it is refused, they are put back."""

import contextlib
import os
import pathlib
from collections.abc import Iterable

from ps_dqn.run import disk


class Overwritten:
    """What was in them before."""

    def __init__(self, paths: Iterable[pathlib.Path]):
        """Reads them.

        Args:
            paths: of files that may not be there, nor may their folders.
        """
        self._contents: dict[pathlib.Path, bytes | None] = {}
        self._new_folders: dict[pathlib.Path, None] = {}  # the innermost first
        for path in paths:
            self._contents[path] = None
            with contextlib.suppress(OSError):
                self._contents[path] = path.read_bytes()
            missing = [folder for folder in path.parents if not folder.exists()]
            self._new_folders |= dict.fromkeys(missing)

    def put_back(self) -> None:
        """Writes those that were there as they were, and removes the others with their folders.

        A folder stays that has something else by now. On a full disk a file stays as it is now,
        but for one that something was appended to.
        """
        for path, content in self._contents.items():
            with contextlib.suppress(OSError):  # whoever was refused has been told why
                if content is None:
                    path.unlink(missing_ok=True)
                else:
                    _put_back(path, content)
        for folder in self._new_folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _put_back(path: pathlib.Path, content: bytes) -> None:
    """Gives a file the content it had."""
    now = path.read_bytes() if path.exists() else None
    if now is not None and now.startswith(content):
        if len(now) > len(content):
            os.truncate(path, len(content))  # takes no room
        return
    with disk.beside(path) as temporary:
        temporary.write_bytes(content)
