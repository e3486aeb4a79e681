"""Real processes for tests: started, listened to, found again, and gone when the test ends."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ps_dqn.cluster import lifeline
from ps_dqn.cluster.spec import Task
from support.programs import inherited_environment

MARK = "PS_DQN_TEST_PROCESSES"
Found = TypeVar("Found")


def until(found: Callable[[], Found], seconds: float, what: str) -> Found:
    """What `found` returns once that is true; fails the test where that takes longer."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return value


def stop(pid: int) -> None:
    """Stops a process; returns when none of its threads runs any more."""
    os.kill(pid, signal.SIGSTOP)

    def states() -> Iterator[str]:
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # the thread has ended meanwhile
                yield path.read_text().rpartition(")")[2].split()[0]

    until(lambda: set(states()) == {"T"}, 60, f"process {pid} to stop")


def accepts(address: str) -> bool:
    """Whether something accepts connections there."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    """A port of this machine that something listens on."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        yield listener.getsockname()[1]


def listens(pid: int) -> bool:
    """Whether a process accepts TCP connections."""
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in pathlib.Path("/proc/net", table).read_text().splitlines()[1:]
    ]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}  # LISTEN
    with contextlib.suppress(OSError):  # it has ended
        for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it was closed
                if os.readlink(descriptor) in sockets:
                    return True
    return False


def output_of(pid: int) -> str:
    """The file, pipe or terminal that a process's standard output is; empty once it has ended."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/1")
    return ""


class Running:
    """A started process and the lines it has written so far, errors included."""

    def __init__(self, command: list[str], environment: dict[str, str]):
        # A session of its own, as a terminal gives: signals of a test reach only it.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.lines: list[str] = []
        self.times: list[float] = []  # when each came (`time.monotonic()`)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def line_with(self, text: str, seconds: float = 240.0) -> str:
        """The first line with this text, once it is there."""
        return self._line(lambda line: text in line, seconds, repr(text))

    def trains(self, seconds: float = 240.0) -> str:
        """The first line that tells of updates; earlier ones tell what tasks are at."""
        return self._line(re.compile(r" updates +[1-9].* updates/s ").search, seconds, "updates")

    def _line(self, is_it: Callable[[str], object], seconds: float, what: str) -> str:
        def found() -> str | None:
            # The end is looked at first: what was written before it is then already read.
            ended = not self._reader.is_alive()
            line = next((line for line in list(self.lines) if is_it(line)), None)
            assert line or not ended, f"ended without a line with {what}:\n{self._end()}"
            return line

        return until(found, seconds, f"a line with {what} after\n{self.text}") or ""

    def count(self, text: str) -> int:
        """How many lines so far have this text."""
        return sum(text in line for line in list(self.lines))

    def ended(self, seconds: float = 240.0) -> int:
        """The exit code, once the process has ended and its output is read."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {seconds} s:\n{self.text}") from None
        self._reader.join(5.0)
        return code

    def close(self) -> None:
        self.ended()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _end(self) -> str:
        """What is known of an end that nobody expected: exit code, output, the end of its log."""
        said = f"exit code {self.process.wait(60.0)}, after\n{self.text}"
        where = "run directory "
        folder = next((line[len(where) :] for line in self.lines if line.startswith(where)), "")
        log = pathlib.Path(folder, "logs", "coordinator.log")
        if folder and log.exists():
            said += f"\n{log.name}:\n{log.read_text(errors='replace')[-10_000:]}"
        return said

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.times.append(time.monotonic())
            self.lines.append(line.rstrip("\n"))


class Processes:
    """What one test starts, and whatever that starts in turn.

    All of it inherits a mark in its environment, so even orphans in sessions of their own are
    found, and nothing else is.
    """

    def __init__(self) -> None:
        self._mark = f"{MARK}={uuid.uuid4().hex}"
        self._running: list[Running] = []

    def start(self, *arguments: str, within: Sequence[str] = (), **environment: str) -> Running:
        """Starts Python with these arguments, by a command that it comes after (`within`)."""
        name, _, value = self._mark.partition("=")
        environment = {**inherited_environment(), **environment, name: value}
        running = Running([*within, sys.executable, *arguments], environment)
        self._running.append(running)
        return running

    def alive(self) -> set[int]:
        """The processes that are there; zombies are not."""
        return {int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*") if self._ours(path)}

    def writing_to(self, log: pathlib.Path) -> int:
        """The process whose standard output is this log; 0 where there is none."""
        return next((pid for pid in self.alive() if output_of(pid) == str(log)), 0)

    def all_gone(self, seconds: float) -> None:
        """Waits until nothing is left."""
        until(lambda: not self.alive(), seconds, "every process to be gone")

    def kill(self) -> None:
        while left := self.alive():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        for running in self._running:
            running.close()

    def _ours(self, path: pathlib.Path) -> bool:
        with contextlib.suppress(OSError):
            return self._mark.encode() in (path / "environ").read_bytes().split(b"\0")
        return False


@contextlib.contextmanager
def gone_at_the_end() -> Iterator[Processes]:
    """Processes for one test, killed however it ends."""
    processes = Processes()
    try:
        yield processes
    finally:
        processes.kill()


class Nursery:
    """A process that forks tasks on request, in milliseconds, also long after the start.

    A process whose TensorFlow runs must not be forked, and a fresh interpreter takes seconds to
    import it. So this one is forked while TensorFlow is imported and nothing of it is made, and
    stays so. Whatever way this process goes, the nursery and all tasks go with it.
    """

    def __init__(self, serve: Callable[[Task], object], logs: pathlib.Path):
        """Forks the nursery.

        Args:
            serve: what a task does.
            logs: folder for the tasks' output.
        """
        assert threading.active_count() == 1, "forking needs a process with one thread"
        ours, theirs = socket.socketpair()
        cut, self._lifeline = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                ours.close()
                os.close(self._lifeline)
                _tend(theirs, cut, serve, logs)
            finally:
                os._exit(1)
        theirs.close()
        os.close(cut)
        self._socket, self._stream = ours, ours.makefile("rw", buffering=1)

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends every task."""
        self._stream.close()
        self._socket.close()
        os.waitpid(self._pid, 0)
        os.close(self._lifeline)

    def start(self, task: Task) -> int:
        """Starts a task, in the place of its predecessor, which must have ended; its process."""
        self._stream.write(f"{task.job} {task.index}\n")
        self._stream.flush()
        return int(self._stream.readline())


def _tend(
    theirs: socket.socket, cut: int, serve: Callable[[Task], object], logs: pathlib.Path
) -> None:
    pids: dict[Task, int] = {}
    stream = theirs.makefile("rw", buffering=1)
    while line := stream.readline():
        job, index = line.split()
        task = Task(job, int(index))
        if task in pids:
            os.waitpid(pids[task], 0)
        pids[task] = os.fork()
        if pids[task] == 0:
            os.setpgid(0, 0)
            theirs.close()
            log = os.open(logs / f"{job}-{index}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            lifeline.hold(cut)
            try:
                serve(task)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(1)
        print(pids[task], file=stream, flush=True)
    for pid in pids.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os._exit(0)
