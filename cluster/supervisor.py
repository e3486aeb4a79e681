"""A process that owns a cluster of this machine, starts its coordinator, and starts either again.

The coordinator is a fork of it, as the tasks are. It makes nothing of TensorFlow's itself and has
one thread, so it can fork them again at any time, in milliseconds: a coordinator that is killed
leaves its tasks as they are, and another one goes on with them. What the coordinator wants of its
tasks it asks for through a pipe. If this process ends, however that is, all of them do.
"""

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from ps_dqn.cluster.control import Control
from ps_dqn.cluster.ending import ENDING
from ps_dqn.cluster.local import LocalCluster, describe_exit
from ps_dqn.cluster.process import Process
from ps_dqn.cluster.restarts import RESTARTS_PER_TASK
from ps_dqn.cluster.spec import Task

# The coordinator gives a sign of life so often; without one for so long, and for so long after it
# was told to end, it is ended (seconds).
BEAT_SECONDS = 1.0
SILENT_SECONDS, SILENT_AT_END_SECONDS = 30.0, 12.0
# From one look at the coordinator to the next; a longer pause is one of this process, and counts as
# so much (seconds).
LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.05, 1.0


class Loss(NamedTuple):
    """A coordinator that was lost."""

    times: int  # so many have been
    at: float  # since when tasks have not been well (`time.perf_counter()`)
    memory: Any  # what the one had last that is lost; None: nothing


class Attended(Control):
    """The tasks, as the coordinator sees them; its methods may be called on any thread."""

    def __init__(self, connection: Connection):
        """Gives signs of life from now on, on a thread of its own."""
        self._connection = connection
        self._lock = threading.Lock()
        self._well: set[Task] = set()
        self._memory: Callable[[], Any] = lambda: None
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def remember(self, memory: Callable[[], Any]) -> None:
        """From now on each sign of life has this with it, for who comes after this process."""
        self._memory = memory

    def ended(self, job: str) -> list[Task]:
        """See `Control`."""
        return list(self._ask("ended", job))

    def check(self, job: str) -> list[str]:
        """See `Control`."""
        return self._started("check", job)

    def waiting(self, job: str) -> list[Task]:
        """See `Control`."""
        return list(self._ask("waiting", job))

    def are_well(self, *tasks: Task) -> None:
        """See `Control`."""
        if not self._well.issuperset(tasks):
            self._ask("are_well", *tasks)
            self._well.update(tasks)

    def tasks(self, job: str) -> list[Task]:
        """See `Control`."""
        return list(self._ask("tasks", job))

    def kill(self, task: Task) -> None:
        """See `Control`."""
        self._ask("kill", task)

    def begin_anew(self, job: str, environment: dict[str, str]) -> list[str]:
        """See `Control`."""
        return self._started("begin_anew", job, environment)

    def may_be_starting(self, task: Task, silent: float) -> bool:
        """See `Control`."""
        return bool(self._ask("may_be_starting", task, silent))

    def pid(self, task: Task) -> int:
        """See `Control`."""
        return int(self._ask("pid", task))

    def epitaphs(self) -> str:
        """See `Control`."""
        return str(self._ask("epitaphs"))

    def last_words(self, task: Task) -> str:
        """See `Control`."""
        return str(self._ask("last_words", task))

    def _started(self, method: str, *arguments: object) -> list[str]:
        """Lines of tasks that were started again: it is no longer known that they are well."""
        lines = list(self._ask(method, *arguments))
        if lines:
            self._well.clear()
        return lines

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            self._ask("", self._memory())

    def _ask(self, method: str, *arguments: object) -> Any:
        with self._lock:
            self._connection.send((method, arguments))
            value = self._connection.recv()
        if isinstance(value, Exception):
            raise value
        return value


class Supervisor:
    """Starts coordinators, one after another."""

    def __init__(self, cluster: LocalCluster, say: Callable[[str], None]):
        """Starts none yet.

        Args:
            cluster: its tasks, which serve.
            say: shows people a line.
        """
        self._cluster, self._say = cluster, say
        self._coordinator: Process | None = None
        self._told = 0  # the last signal that was handed on
        self._restarts = 0  # since tasks were last said to be well
        self._losses = 0
        self._lost_at = math.nan
        self._memory: Any = None  # of the coordinator

    def run(self, coordinate: Callable[[Control, Loss | None], int]) -> int:
        """Starts a coordinator, and another one whenever a signal has killed it.

        SIGINT, SIGTERM and SIGHUP are handed on.

        Args:
            coordinate: what it does, in a process of its own; returns its exit code. Takes the
                tasks, and which coordinator was lost before.

        Returns:
            The exit code of the last one.
        """
        while True:
            code = self._attend(coordinate)
            if code >= 0:
                return code
            if self._told or self._restarts == RESTARTS_PER_TASK:
                self._say(f"error: the coordinator {describe_exit(code)}")
                return 128 + (self._told or -code)
            self._restarts += 1
            self._losses += 1
            if math.isnan(self._lost_at):
                self._lost_at = time.perf_counter()
            self._say(
                f"the coordinator {describe_exit(code)}; started again "
                f"({self._restarts} of {RESTARTS_PER_TASK})"
            )

    def _attend(self, coordinate: Callable[[Control, Loss | None], int]) -> int:
        """One coordinator, until it ends; its exit code, negative for a signal."""
        ours, theirs = Pipe()
        loss = Loss(self._losses, self._lost_at, self._memory)

        def begin() -> int:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            ours.close()
            return coordinate(Attended(theirs), loss if loss.times else None)

        # It takes over how signals are handled here until now, and none of them is lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        self._coordinator = self._cluster.fork(begin)
        theirs.close()
        handlers = {number: signal.getsignal(number) for number in ENDING}
        for number, handler in handlers.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._hand_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        try:
            with contextlib.closing(ours):
                return self._serve(self._coordinator, ours)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _serve(self, coordinator: Process, connection: Connection) -> int:
        """Does what the coordinator asks for, until it ends; its exit code."""
        silent, looked_at = 0.0, time.monotonic()
        while (code := coordinator.poll()) is None:
            now = time.monotonic()
            silent += min(now - looked_at, LONGEST_LOOK_SECONDS)
            looked_at = now
            if connection.poll(LOOK_SECONDS):
                try:
                    method, arguments = connection.recv()
                except (EOFError, OSError):  # it is about to end
                    time.sleep(LOOK_SECONDS)
                    continue
                silent = 0.0
                with contextlib.suppress(OSError):
                    connection.send(self._answer(method, arguments))
            elif silent > (SILENT_AT_END_SECONDS if self._told else SILENT_SECONDS):
                self._say(f"the coordinator has not answered for {silent:.0f} s: it is ended")
                coordinator.signal_group(signal.SIGKILL)
                silent = 0.0
        return code

    def _answer(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if not method:
            if arguments[0] is not None:
                self._memory = arguments[0]
            return None
        if method == "are_well":
            self._restarts, self._lost_at = 0, math.nan
        try:
            return getattr(self._cluster, method)(*arguments)
        except Exception as error:  # for the coordinator, not for this process
            return error

    def _hand_on(self, number: int, frame: object) -> None:
        self._told = number
        if self._coordinator is not None and self._coordinator.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._coordinator.pid, number)
