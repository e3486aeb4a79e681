"""TensorFlow's profiler in this process, of which there is one at a time.

It is begun and ended by the process itself. TensorFlow's servers could be told to, at their own
addresses (`tf.profiler.experimental.client.trace`), but then they record for a number of seconds,
not of updates, and write on their own machine, where nobody looks.

Beneath `tf.profiler.experimental` is a session, which is used here: what begins while somebody else
records leaves the module's own one broken. Its `stop` gives bytes of another format than the one
that TensorBoard reads, so it writes a file, which is read.
"""

import pathlib
import tempfile
import threading
from typing import Any

import tensorflow as tf
from tensorflow.python.profiler.internal import _pywrap_profiler

# A trace grows with every operation and is kept in memory, and is put together at its end: it ends
# by itself after so long (seconds).
MOST_SECONDS = 10.0


class Trace:
    """What TensorFlow does in this process from now on."""

    def __init__(self, most_seconds: float = MOST_SECONDS):
        """Begins.

        Args:
            most_seconds: after which it ends by itself.

        Raises:
            tf.errors.OpError: TensorFlow cannot record.
            OSError: there is no place for a file.
        """
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="ps_dqn-profile-")
        self._session: Any = _pywrap_profiler.ProfilerSession()
        self._session.start(self._folder.name, {})
        self._content: bytes | None = None
        self.was_cut = False  # it ended by itself
        self._timer = threading.Timer(most_seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> bytes:
        """Ends it; what was recorded, an `XSpace` of TensorFlow's profiler."""
        with self._lock:
            self._timer.cancel()
            if self._content is None:
                self._session.export_to_tb()
                self._session = None
                [path] = pathlib.Path(self._folder.name).rglob("*.xplane.pb")
                self._content = path.read_bytes()
                self._folder.cleanup()
            return self._content

    def _cut(self) -> None:
        self.was_cut = self._content is None
        self.stop()


def named(name: str) -> Any:
    """A block that a trace shows by this name."""
    return tf.profiler.experimental.Trace(name)
