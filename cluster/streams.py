"""Standard output and error of a task, which are its log: a full disk may not take all of it."""

import faulthandler
import io
import sys


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
