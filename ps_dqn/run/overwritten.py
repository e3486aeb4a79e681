"""Files of a run that it writes anew when it goes on; where it is refused, they are put back."""

import contextlib
import pathlib
from collections.abc import Iterable


class Overwritten:
    """What was in them before."""

    def __init__(self, paths: Iterable[pathlib.Path]):
        """Reads them.

        Args:
            paths: of files that may not be there.
        """
        self._contents: dict[pathlib.Path, bytes] = {}
        for path in paths:
            with contextlib.suppress(OSError):
                self._contents[path] = path.read_bytes()

    def put_back(self) -> None:
        """Writes those that were there as they were."""
        for path, content in self._contents.items():
            with contextlib.suppress(OSError):  # whoever was refused has been told why
                path.write_bytes(content)
