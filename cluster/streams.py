"""Standard streams: what a command is started with, and those of a task, which are its log."""

import contextlib
import faulthandler
import io
import os
import sys
from collections.abc import Iterator


class OutputError(OSError):
    """Standard output cannot be written, as where its disk is full."""


class NoReaderError(OutputError, BrokenPipeError):
    """Whoever read standard output has left, as `head` does."""


class _Output(io.TextIOWrapper):
    """Standard output of a command, whose failures are told from those of other files."""

    def write(self, text: str) -> int:
        """Writes what it can encode."""
        with _told_apart():
            return super().write(text)

    def flush(self) -> None:
        """Flushes."""
        with _told_apart():
            super().flush()


@contextlib.contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = NoReaderError if isinstance(error, BrokenPipeError) else OutputError
        raise kind(error.errno, error.strerror) from None


def begin() -> None:
    """Readies the standard streams of a command, before it opens anything.

    One that it was started without leads nowhere: what was opened next would have its number. What
    standard output cannot encode is replaced.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = _forgiving(2)
    if not isinstance(sys.stdout, _Output):
        sys.stdout = _output()


def _output() -> _Output:
    """Standard output as Python has made it, if it has, in encoding and buffering."""
    before = sys.stdout
    if not isinstance(before, io.TextIOWrapper):
        return _Output(open(1, "wb", closefd=False), errors="replace")
    before.flush()
    buffering = 0 if before.write_through else -1
    raw = open(1, "wb", buffering, closefd=False)  # noqa: SIM115 - as long as the process
    return _Output(
        raw,
        before.encoding,
        errors="replace",
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )


class Forgiving(io.TextIOWrapper):
    """A stream whose reader or disk may be gone, or full; whoever writes goes on."""

    def write(self, text: str) -> int:
        """Writes, if it can be."""
        try:
            return super().write(text)
        except OSError:
            return self.on_failure()

    def flush(self) -> None:
        """Flushes, if it can be."""
        try:
            super().flush()
        except OSError:
            self.on_failure()

    def on_failure(self) -> int:
        """What was written is lost."""
        return 0


def forgive() -> None:
    """Makes this process's standard streams so; a crash in C++ says there where Python was."""
    sys.stdout, sys.stderr = _forgiving(1), _forgiving(2)
    faulthandler.enable(2)


def _forgiving(descriptor: int) -> Forgiving:
    raw = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115 - as long as the process
    return Forgiving(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
