"""Which runs a person means: their folders, or folders that have runs below them."""

import os
import pathlib
from collections.abc import Sequence

from ps_dqn.errors import UsageError
from ps_dqn.run import directory, paths


def runs(words: Sequence[str]) -> list[pathlib.Path]:
    """The folders of the runs that are named, each once, in the order of their names.

    Args:
        words: folders of runs, and folders below which all runs are meant.

    Raises:
        UsageError: a word is no folder that can be looked at, or there is no run.
    """
    if not words:
        raise UsageError("no run is named: say the folder of one, or a folder with runs below it")
    found: dict[pathlib.Path, None] = {}
    for word in words:
        below = _below(paths.named("", word))
        if not below:
            raise UsageError(f"{word}: there is no run in it (no {directory.FLAGFILE} below it)")
        found |= dict.fromkeys(below)
    return list(found)


def one(words: Sequence[str]) -> pathlib.Path:
    """The folder of the one run that is named.

    Raises:
        UsageError: no run is named, or several are.
    """
    found = runs(words)
    if len(found) > 1:
        raise UsageError(f"{words[0]}: one run at a time, and there are {len(found)}: say which")
    return found[0]


def _below(folder: pathlib.Path) -> list[pathlib.Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder}: is no folder")
    with paths.looking(str(folder)):
        os.scandir(folder).close()  # as the walk leaves out what it cannot read
    found = []
    for path, folders, files in os.walk(folder):
        folders.sort()
        if directory.FLAGFILE in files:
            found.append(pathlib.Path(path))
            folders.clear()  # what is in a run is its own
    return found
