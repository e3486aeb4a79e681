"""Keeps the terminal to our own lines: TensorFlow writes to a log file instead.

Its C++ runtime writes to file descriptor 2 itself, at import and at exit too, so the descriptors
are redirected before TensorFlow is imported, and stay so until the process ends.
"""

import os
import pathlib
import sys
from typing import TextIO

from rich.console import Console


def redirect_to(log: pathlib.Path) -> Console:
    """Sends what anything but the returned console writes to a log file.

    Args:
        log: opened for appending.

    Returns:
        A console on the real standard output.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    terminal: TextIO = os.fdopen(os.dup(1), "w", buffering=1)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return Console(file=terminal)


def say(console: Console, line: str) -> None:
    """Prints a line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
