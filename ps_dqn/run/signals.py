"""How a run is asked to end, and what its exit code says to who started it."""

import os
import select
import signal
import threading
import time
from collections.abc import Callable

from ps_dqn.cluster.ending import ENDING, Requests

FAILED = 1
WRONG_USAGE = 2  # starting it again is in vain
START_AGAIN = 75  # it goes on from its checkpoint; EX_TEMPFAIL of sysexits.h
# Why a run ended that was not over, beside "solved" and "finished".
STOPPED = "stopped"
INTERRUPTED = 128 + signal.SIGINT


# A run that was asked to end, and then shows no sign of life for so long, is ended (seconds).
SILENT_SECONDS = 8.0
# So is one that is still writing a checkpoint so long after it was asked: less than the 60 that
# Kubernetes gives a coordinator. Who gives less ends it as well, and to end by itself before that
# would save nothing (seconds).
WRITING_SECONDS = 50.0
# So is one that was asked twice (seconds).
LAST_SECONDS = 1.0
# For what such a run has in memory to be written (seconds). With the time to drain and the first of
# these it is less than the 15 that a run has to end.
SAVE_SECONDS = 1.5
_POLL_SECONDS = 0.25


class Signals:
    """SIGINT, SIGTERM and SIGHUP end a run in good order; the second one ends it at once.

    Two that come together are one.

    SIGINT is a person's, who need not be told that the run can go on; SIGTERM is a system's, which
    wants to know whether to start it again; SIGHUP says that the terminal is gone, and is left
    ignored where it was (nohup).

    Python's handlers run in the main thread, between two of its own steps. Where that waits for a
    task that hangs, inside TensorFlow, they never do. So a thread of its own hears of signals too
    (`watch`), and ends the process where the main thread does not.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        last_sign: Callable[[], float],
        is_writing: Callable[[], bool],
        save: Callable[[], str],
    ) -> None:
        """Handles signals from now on, in the main thread.

        Args:
            say: shows people a line.
            last_sign: when the run last showed that it lives (`time.monotonic()`).
            is_writing: whether it writes a checkpoint, which is no silence; the end of that is a
                sign.
            save: writes what there is in memory before the process is ended, on a thread of its
                own, and says what that is; no text where it is nothing new.
        """
        self.received = 0  # the first signal
        self._told = 0  # the last one that came while there was nothing to stop
        self._requests = Requests()
        self._stop: Callable[[], None] | None = None
        self._say, self._last_sign, self._save = say, last_sign, save
        self._is_writing = is_writing
        self._waits_for_tasks, self._is_deaf = True, False
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def watch(self) -> None:
        """Starts the thread: once local tasks are there, as only a single thread may fork."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=[reader], name="signals", daemon=True).start()

    def left_tasks(self) -> None:
        """The run needs its tasks no more; what it writes may take its time."""
        self._waits_for_tasks = False

    def hear_no_more(self) -> None:
        """The main thread is on its way out, and what it still saves is not to be cut off.

        The thread that watches ends the process all the same, where that takes too long.
        """
        self._is_deaf = True

    def on_stop(self, stop: Callable[[], None] | None) -> None:
        """What a first signal calls; where there is nothing, it ends the process.

        Raises:
            SystemExit: one came before, and Python has dropped the exception: a handler may run
                inside a destructor.
        """
        self._stop = stop
        if stop is not None and (code := self.told_code) is not None:
            raise SystemExit(code)

    def exit_code(self, is_over: bool) -> int:
        """The exit code of a run that ended in good order.

        Args:
            is_over: it reached its end, signal or not.
        """
        if is_over or not self.received:
            return 0
        return exit_code_of(self.received)

    @property
    def has_come(self) -> bool:
        """Whether one has, whatever there was to stop."""
        return bool(self.received or self._told)

    @property
    def told_code(self) -> int | None:
        """The exit code of a signal that came while there was nothing to stop, if one did.

        Whatever fails after it is its doing: an import makes another error of its exception.
        """
        return exit_code_of(self._told) if self._told else None

    @property
    def told_name(self) -> str:
        """For people: that signal."""
        return "Ctrl-C" if self._told == signal.SIGINT else signal.Signals(self._told).name

    def _handle(self, number: int, frame: object) -> None:
        if self._is_deaf or not self._requests.is_another():
            return
        if self.received or self._stop is None:
            self._told = number
            raise SystemExit(exit_code_of(number))
        self.received = number
        self._stop()

    def _watch(self, reader: int) -> None:
        """Ends the process that does not end itself."""
        heard: list[tuple[int, float]] = []  # signals, and when
        requests = Requests()
        while True:
            if select.select([reader], [], [], _POLL_SECONDS if heard else None)[0]:
                number = os.read(reader, 1)[0]
                if number in ENDING and requests.is_another():
                    heard.append((number, time.monotonic()))
            if not heard:
                continue
            number, since = heard[min(len(heard), 2) - 1]
            limit = LAST_SECONDS
            if len(heard) == 1 and self._is_writing():
                limit = WRITING_SECONDS
            elif len(heard) == 1:
                limit, since = SILENT_SECONDS, max(since, self._last_sign())
            if time.monotonic() - since > limit and (self._waits_for_tasks or len(heard) > 1):
                self._end(number, time.monotonic() - heard[0][1])

    def _end(self, number: int, seconds: float) -> None:
        """Ends the process, and with it tasks of a local cluster, which hold on to its life.

        Args:
            number: of the signal that wants it.
            seconds: since the first one.
        """
        name, saved = signal.Signals(number).name, [""]
        why, without = "a task does not answer", "without another checkpoint"
        if self._is_writing():
            why, without = (
                f"a checkpoint is still being written after {seconds:.0f} s",
                "without it",
            )

        def save() -> None:
            saved[0] = self._save()

        saving = threading.Thread(target=save, name="last save", daemon=True)
        saving.start()
        saving.join(SAVE_SECONDS)
        self._say(f"error: {name} did not end the run: {why}; {saved[0] or f'ended {without}'}")
        os._exit(exit_code_of(number))


def exit_code_of(number: int) -> int:
    """What a process that a signal has ended in good order says with its exit code."""
    return START_AGAIN if number == signal.SIGTERM else 128 + number
