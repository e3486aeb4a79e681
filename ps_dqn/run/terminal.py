"""Keeps the terminal to our own lines: TensorFlow writes to a log file instead.

Its C++ runtime writes to file descriptor 2 itself, at import and at exit too, so the descriptors
are redirected before TensorFlow is imported, and stay so until the process ends.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
import types
from collections.abc import Iterator

from rich.console import Console, RenderableType

from ps_dqn.cluster import streams


class _Terminal(streams.Forgiving):
    """Standard output, which may go away with a terminal or a reader; a run goes on."""

    def on_failure(self) -> int:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        return 0


def redirect_to(log: pathlib.Path) -> Console:
    """Sends what anything but the returned console writes to a log file.

    Args:
        log: opened for appending; a temporary file where it cannot be written, as in a run of
            another user's. An exception that nobody catches leaves its trace there, and a line
            that says so on the console.

    Returns:
        A console on the real standard output.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    raw = open(os.dup(1), "wb", buffering=0)  # noqa: SIM115 - as long as the process
    terminal = _Terminal(raw, sys.stdout.encoding, "replace", line_buffering=True)
    descriptor, log = _opened(log)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    streams.forgive()
    console = Console(file=terminal)
    trace = sys.excepthook

    def say_that_it_broke(
        kind: type[BaseException], error: BaseException, frames: types.TracebackType | None
    ) -> None:
        trace(kind, error, frames)
        if not issubclass(kind, KeyboardInterrupt):
            what = " ".join(f"{kind.__name__}: {error}".split())
            say(console, f"error: stopped by a mistake in the program: {what}; see {log}")

    sys.excepthook = say_that_it_broke
    return console


def _opened(log: pathlib.Path) -> tuple[int, pathlib.Path]:
    """A descriptor of a log file, or of a temporary one in its place; and which one it is."""
    try:
        log.parent.mkdir(exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), log
    except OSError:
        descriptor, name = tempfile.mkstemp(prefix=f"{log.stem}-", suffix=log.suffix)
        return descriptor, pathlib.Path(name)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Drops what is written to standard error meanwhile, also by C++, of this process.

    For a process that is a user's, where TensorFlow is imported for the first time.
    """
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def show(console: Console, *shown: RenderableType) -> None:
    """Prints tables, a blank line between them.

    Into a file or a pipe they go without the blanks that would fill their lines.
    """
    for number, each in enumerate(shown):
        if number:
            say(console, "")
        if console.is_terminal:
            console.print(each)
            continue
        with console.capture() as captured:
            console.print(each)
        for line in captured.get().splitlines():
            say(console, line.rstrip())


def say(console: Console, line: str) -> None:
    """Prints a line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
