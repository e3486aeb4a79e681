"""What the coordinator and all tasks have recorded of themselves, fetched into the run directory.

Each task begins and ends its own recording (`profiling.recording`). Here a thread asks for what
came of them, task by task, once the run is past the window or over: a task may be far away, and
people have one run directory. Nothing here ends or delays the run, but for a while at its end.
"""

import datetime
import functools
import pathlib
import threading
import time
from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.python.eager import context, executor

from ps_dqn.cluster.spec import Task
from ps_dqn.config import Profiling
from ps_dqn.profiling import python, recording
from ps_dqn.profiling.recording import Piece, Progress
from ps_dqn.run import directory, stages
from ps_dqn.wire import asking, bridge

# From one question to a task to the next, until what it recorded is put together; how long all of
# them may take; and how long the end of a run waits for them, and that of a stopped one (seconds).
PERIOD, PATIENCE, LAST_SECONDS, STOPPED_SECONDS = 0.25, 120.0, 60.0, 2.0
# Where TensorBoard looks for traces, beneath a folder that it is given.
PLUGIN = pathlib.PurePath("plugins", "profile")

# Gives what one has recorded, from a byte on.
Give = Callable[[int], Piece]


class Profiles:
    """What all tasks of one run record."""

    def __init__(
        self,
        options: Profiling,
        tasks: Sequence[Task],
        folder: pathlib.Path,
        say: Callable[[str], None],
        ask: Callable[[Task, int], Piece] | None = None,
    ):
        """Has heard of no updates yet.

        Args:
            options: which updates are recorded.
            tasks: of the run, the coordinator aside.
            folder: of the run.
            say: shows people a line; on any thread.
            ask: a task for what it has recorded, from a byte on; where not said, by the bridge.
        """
        self._options, self._folder, self._say = options, folder, say
        self._own = recording.make(options.window, options.profile_python)
        # Those whose recording is not here yet.
        self._missing: dict[str, Give] = {
            f"{task.job}-{task.index}": functools.partial(ask or ask_at, task)
            for task in tasks
            if task.job != "chief"
        }
        if self._own is not None:
            self._missing["coordinator"] = self._own.give
        self._notes: dict[str, str] = {}
        self._traces = folder / directory.TENSORBOARD / PLUGIN
        self._num_traces = self._num_python = 0
        self._concluding = threading.Lock()
        self._is_past = False  # the window; what was recorded can be fetched
        self._fetching: tuple[threading.Thread, threading.Event] | None = None

    def hear(self, updates: int) -> None:
        """Takes how many updates the run has made; on the thread that trains, each time."""
        own = self._own
        if own is None:
            return
        if self._is_past:
            if self._missing and self._fetching is None:
                self._fetch_beside()  # connected anew
            return
        assert self._options.window is not None
        before = own.progress
        if before is Progress.RECORDING and updates >= self._options.window.stop:
            self._leave()
        own.hear(updates)
        if before is own.progress:
            return
        if own.progress is Progress.RECORDING:
            self._begin(updates)
        elif before is Progress.RECORDING:
            self._pass(f"at {updates:,} updates")
        else:
            self._own = None
            self._say(
                f"--profile={self._options.profile}: the run has made {updates:,} updates already: "
                f"nothing is recorded"
            )

    def finish(self, has_time: Callable[[], bool]) -> None:
        """The run ends, before the window did or after: what was recorded is fetched.

        Args:
            has_time: whether it has come to its end, and nobody has told it to stop by now.
        """
        own = self._own
        if own is None:
            return
        if own.progress is Progress.WAITING:
            self._own = None
            self._say(
                f"--profile={self._options.profile}: the run ended before these updates: nothing "
                f"was recorded"
            )
            return
        if not self._is_past:
            self._leave()
            own.end()
            self._pass("with the run")
        if self._fetching is not None:
            thread, closed = self._fetching
            with stages.stage("fetching what tasks have recorded", self._say):
                began = time.monotonic()
                while thread.is_alive() and time.monotonic() - began < (
                    LAST_SECONDS if has_time() else STOPPED_SECONDS
                ):
                    thread.join(PERIOD)
            closed.set()
            thread.join(PERIOD)
            self._conclude()

    def disconnect(self) -> None:
        """The connection to the tasks is gone, or will be: asks none until `hear` is called."""
        if self._fetching is not None:
            thread, closed = self._fetching
            closed.set()
            thread.join(4 * PERIOD)
            self._fetching = None

    def _begin(self, updates: int) -> None:
        moment = datetime.datetime.now().strftime("%Y_%m_%d_%H_%M_%S")
        self._traces /= moment
        assert self._own is not None
        if self._own.python is not None:
            self._own.python.enter()
        self._say(
            f"profile: recording from {updates:,} updates on (--profile={self._options.profile})"
        )

    def _leave(self) -> None:
        if self._own is not None and self._own.python is not None:
            self._own.python.leave()

    def _pass(self, when: str) -> None:
        self._is_past = True
        self._say(f"profile: the recording ended {when}")
        self._fetch_beside()

    def _fetch_beside(self) -> None:
        closed = threading.Event()
        thread = threading.Thread(target=self._fetch_all, args=[closed], name="profiles")
        thread.daemon = True
        self._fetching = thread, closed
        thread.start()

    def _fetch_all(self, closed: threading.Event) -> None:
        """Asks until everybody has answered or the time is over."""
        deadline = time.monotonic() + PATIENCE
        with context.executor_scope(executor.new_executor(enable_async=False)):
            while self._missing and time.monotonic() < deadline:
                for name, give in list(self._missing.items()):
                    if closed.is_set():
                        return
                    if self._has_fetched(name, give):
                        self._missing.pop(name, None)
                closed.wait(PERIOD)
        if not closed.is_set():
            self._conclude()

    def _has_fetched(self, name: str, give: Give) -> bool:
        """Whether no more is to come of somebody's recording."""
        try:
            first = piece = give(0)
            if first.progress in (Progress.RECORDING, Progress.ENDING):
                return False
            self._note(name, first.note)
            content = bytearray(first.content.tobytes())
            while len(content) < first.trace_size + first.python_size:
                piece = give(len(content))
                if piece.progress != Progress.READY:
                    return False  # another one is there by now
                content += piece.content.tobytes()
            if content:
                self._write(name, bytes(content), first)
                give(len(content))  # it can be forgotten
        except tf.errors.OpError:
            self._note(name, "it does not answer")
            return False
        except Exception as error:
            self._note(name, f"{type(error).__name__}: {error}")
        return True

    def _write(self, name: str, content: bytes, piece: Piece) -> None:
        recorded, calls = content[: piece.trace_size], content[piece.trace_size :]
        if recorded:
            self._traces.mkdir(parents=True, exist_ok=True)
            (self._traces / f"{name}.xplane.pb").write_bytes(recorded)
            self._num_traces += 1
        if calls:
            path = self._folder / directory.PROFILE / f"{name}.pstats"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(calls)
            path.with_suffix(".txt").write_text(python.table(path, piece.missed), encoding="utf-8")
            self._num_python += 1

    def _note(self, name: str, note: str) -> None:
        self._notes[name] = note

    def _conclude(self) -> None:
        """Says what there is, once; on either thread."""
        with self._concluding:
            own, self._own = self._own, None
        if own is None:
            return
        for name, note in self._notes.items():
            if note:
                self._say(f"profile: {name}: {note}")
        silent = [name for name in self._missing if not self._notes.get(name)]
        if silent:
            self._say(f"profile: not there in time: {', '.join(silent)}")
        if self._num_traces:
            self._say(
                f"profile: {_are(self._num_traces, 'trace')} in {self._traces}; pip install "
                f'"ps-dqn[profile]" and open with: tensorboard --logdir '
                f"{self._folder / directory.TENSORBOARD}"
            )
        if self._num_python:
            tables = _are(self._num_python, "table")
            self._say(
                f"profile: {tables} in {self._folder / directory.PROFILE}: what Python did there"
            )


def _are(number: int, what: str) -> str:
    return f"{number} {what} is" if number == 1 else f"{number} {what}s are"


def ask_at(place: Task, start: int) -> Piece:
    """What a task has recorded, from a byte on; the task as TensorFlow knows it."""
    device = f"/job:{place.job}/replica:0/task:{place.index}/device:CPU:0"
    return asking.recorded(device, bridge.number(place), start)
