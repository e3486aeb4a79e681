"""The process that trains: a coordinator, which is asked to end when this process is gone.

TensorFlow cannot be undone, and forks must come before it makes anything, so a run has a process of
its own, and as many runs as one likes can follow each other or go on side by side.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

from ps_dqn.cluster import lifeline
from ps_dqn.cluster.process import interpreter

# Say that an output is a terminal which is none; Jupyter's kernels are started with the first.
_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
# Whoever holds on to the output of a process that has ended is given so long (seconds).
LAST_SECONDS = 5.0


class Child:
    """`python -m ps_dqn.coordinator`, in a session of its own.

    Attributes:
        code: its exit code, negative for a signal; None: it has not ended, or not been read to
            the end.
    """

    def __init__(self, words: Sequence[str], import_path: Sequence[str]):
        """Starts it.

        Args:
            words: its flags.
            import_path: folders that it imports from, after those of this process.
        """
        held, self._lifeline = os.pipe()
        try:
            # Ctrl-C at a terminal reaches this process alone, and then this one asks that one.
            self._process = subprocess.Popen(
                [*interpreter("ps_dqn.coordinator"), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=_environment(held, import_path),
                pass_fds=[held],
                start_new_session=True,
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(held)
        self.code: int | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # Training must not wait for whoever is slow to take its lines.
        self._reader = threading.Thread(target=self._read, name="lines", daemon=True)
        self._reader.start()

    def lines(self, seconds: float) -> list[str]:
        """The lines that have come since the last call; waits for so long for the first."""
        found: list[str] = []
        with contextlib.suppress(queue.Empty):
            line = self._lines.get(timeout=seconds)
            while line is not None:
                found.append(line)
                line = self._lines.get_nowait()
            self._process.wait()
        if self._process.poll() is not None:
            self._reader.join(LAST_SECONDS)
            with contextlib.suppress(queue.Empty):
                while (line := self._lines.get_nowait()) is not None:
                    found.append(line)
            self.code = self._process.returncode
        return found

    def stop(self) -> None:
        """Asks it to end in good order; asked twice, it ends at once."""
        # Not SIGINT, which shells have programs in the background ignore.
        self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Lets go of it, once it has ended."""
        os.close(self._lifeline)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


def _environment(held: int, import_path: Sequence[str]) -> dict[str, str]:
    """This process's, with what it imports from: a notebook's or a script's folder, too."""
    paths = [*(path or os.getcwd() for path in sys.path), *import_path]
    return {
        **{name: value for name, value in os.environ.items() if name not in _TERMINAL},
        "PYTHONPATH": os.pathsep.join(paths),
        lifeline.OF_COORDINATOR: str(held),
    }
