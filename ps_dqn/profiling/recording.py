"""What a task records of itself while the run is between two numbers of updates.

A task hears of the run's updates anyway: a worker by what it pulls, a server by what it applies,
the coordinator by reports. So each begins and ends by itself, and is only asked for what came of
it. Nothing that goes wrong here is an error of the task: it is a note for people.
"""

import contextlib
import enum
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.profiling import trace
from ps_dqn.profiling.python import PythonProfile
from ps_dqn.profiling.trace import Trace

# Of what was recorded, so much travels at once, and so much is kept at most (bytes).
PIECE, MOST_BYTES = 4 * 2**20, 512 * 2**20


class Progress(enum.IntEnum):
    """Where a recording is."""

    NONE = 0  # there is none: nobody asked for it, it had no time, or it was fetched
    WAITING = 1  # the run is not there yet
    RECORDING = 2
    ENDING = 3  # what was recorded is put together
    READY = 4


class Piece(NamedTuple):
    """An answer to who asks for what was recorded."""

    progress: int
    trace_size: int  # bytes of TensorFlow's
    python_size: int  # bytes of cProfile's, which follow them
    missed: int  # calls that are not among those
    content: np.ndarray  # from where it was asked for, uint8; nothing unless it is READY
    note: str  # what went wrong, for people; or no text

    def as_arrays(self) -> list[Any]:
        """As it travels: int64 [4], uint8 and a text."""
        return [np.array(self[:4], np.int64), self.content, self.note]

    @classmethod
    def from_arrays(cls, numbers: Any, content: np.ndarray, note: bytes) -> "Piece":
        """What `as_arrays` has sent."""
        progress, trace_size, python_size, missed = map(int, numbers)
        text = note.decode(errors="replace")
        return cls(progress, trace_size, python_size, missed, content, text)


NOTHING = Piece(Progress.NONE, 0, 0, 0, np.zeros(0, np.uint8), "")


class Recording:
    """Of one task; its methods may be called on any thread."""

    def __init__(self, window: range, with_python: bool):
        """Waits for the run to come into a window of updates, unless it is past it already."""
        self.progress = Progress.WAITING
        self._window, self._with_python = window, with_python
        self._is_first = True  # nothing was heard yet
        self._trace: Trace | None = None
        self.python: PythonProfile | None = None
        self._content, self._trace_size, self._note = b"", 0, ""
        self._lock = threading.Lock()

    @property
    def listens(self) -> bool:
        """Whether it matters how many updates the run has made."""
        return self.progress in (Progress.WAITING, Progress.RECORDING)

    def hear(self, updates: int) -> None:
        """Takes how many updates the run has made by now; begins and ends as that says.

        A window that the run skips is recorded from there to what is heard next.
        """
        if not self.listens:
            return
        with self._lock:
            is_first, self._is_first = self._is_first, False
            if self.progress is Progress.RECORDING and updates >= self._window.stop:
                self._end()
            elif self.progress is Progress.WAITING and updates >= self._window.start:
                if is_first and updates >= self._window.stop:
                    self.progress = Progress.NONE
                else:
                    self._begin()

    def call(self, name: str, function: Callable[..., Any], *inputs: Any) -> Any:
        """Calls a function, on the record if there is one now."""
        if self.progress is not Progress.RECORDING:
            return function(*inputs)
        with trace.named(name):
            return function(*inputs) if self.python is None else self.python.call(function, *inputs)

    def end(self) -> None:
        """Ends it, wherever the run is."""
        with self._lock:
            if self.progress is Progress.WAITING:
                self.progress = Progress.NONE
            elif self.progress is Progress.RECORDING:
                self._end()

    def give(self, place: int) -> Piece:
        """Ends it, and gives what was recorded from a byte on, once that is put together.

        Who has all of it asks for what follows; then it is forgotten.
        """
        self.end()
        with self._lock:
            if self.progress is Progress.READY and place and place >= len(self._content):
                self._content, self.progress = b"", Progress.NONE
            piece = self._content[place : place + PIECE]
            missed = self.python.missed if self.python is not None else 0
            sizes = self._trace_size, len(self._content) - self._trace_size
            if self.progress is not Progress.READY:
                sizes = 0, 0
            return Piece(self.progress, *sizes, missed, np.frombuffer(piece, np.uint8), self._note)

    def close(self) -> None:
        """Ends it and forgets it: nobody will ask."""
        with self._lock:
            self.progress, self._content = Progress.NONE, b""
            recorded, self._trace = self._trace, None
        if recorded is not None:
            with contextlib.suppress(Exception):
                recorded.stop()

    def _begin(self) -> None:
        self.progress = Progress.RECORDING
        if self._with_python:
            self.python = PythonProfile()
        with self._noting():
            self._trace = Trace()

    def _end(self) -> None:
        """Begins to put together what was recorded, which takes its time: nobody waits for it."""
        self.progress = Progress.ENDING
        threading.Thread(target=self._put_together, name="profile", daemon=True).start()

    def _put_together(self) -> None:
        recorded, python = b"", b""
        if self._trace is not None:
            with self._noting():
                recorded = self._trace.stop()
                if self._trace.was_cut:
                    self._note = f"TensorFlow's part is of its first {trace.MOST_SECONDS:.0f} s"
        if self.python is not None:
            with self._noting():
                python = self.python.content()
        if len(recorded) > MOST_BYTES:
            self._note = (
                f"TensorFlow's part has {len(recorded) / 2**20:,.0f} MiB, which is more than "
                f"{MOST_BYTES / 2**20:.0f}: it is left out; record fewer updates"
            )
            recorded = b""
        with self._lock:
            self._trace = None
            if self.progress is Progress.ENDING:
                self._content, self._trace_size = recorded + python, len(recorded)
                self.progress = Progress.READY if self._content else Progress.NONE

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """What goes wrong in the block is a note."""
        try:
            yield
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            self._note = text[:200]


def make(window: range | None, with_python: bool) -> Recording | None:
    """A recording of a task; None where none is asked for."""
    return None if window is None else Recording(window, with_python)
