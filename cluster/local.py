"""The whole cluster as processes of this machine: the default.

Tasks are forked after the one import of TensorFlow, before any TensorFlow object exists, which
takes milliseconds where a fresh interpreter takes seconds. A process with a running TensorFlow
must not be forked, so a worker that is replaced later starts as a fresh interpreter.
"""

import contextlib
import dataclasses
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

from ps_dqn.cluster import lifeline, streams
from ps_dqn.cluster.arrivals import tasks_there
from ps_dqn.cluster.control import TaskDiedError
from ps_dqn.cluster.ending import ENDING
from ps_dqn.cluster.ports import RESERVATION_VARIABLE, reservation
from ps_dqn.cluster.process import Process, fork, interpreter
from ps_dqn.cluster.restarts import Restarts
from ps_dqn.cluster.spec import ClusterSpec, Task, of_servers

START_SECONDS = 60.0
STOP_SECONDS = 1.5
# From one line about tasks that have come to the next (seconds).
SAY_SECONDS = 2.0
TAIL_LINES = 12


@dataclasses.dataclass(frozen=True)
class Role:
    """How the tasks of one job are run: called in a fork, or as `python -m module arguments`."""

    module: str
    arguments: tuple[str, ...]
    serve: Callable[[ClusterSpec, Task], object]


class LocalCluster:
    """Starts, watches, replaces and stops the tasks of a cluster on this machine."""

    def __init__(
        self,
        spec: ClusterSpec,
        roles: dict[str, Role],
        log_dir: pathlib.Path,
        start_method: str,
        forks_again: bool = False,
    ):
        """Starts nothing yet.

        Args:
            spec: the cluster.
            roles: what the tasks of each job do.
            log_dir: where each has its log.
            start_method: `fork` or `spawn`.
            forks_again: this process never makes anything of TensorFlow's, so tasks that are
                replaced may be forked too.
        """
        self._spec = spec
        self._roles = roles
        self._log_dir = log_dir
        self._launch = self._fork if start_method == "fork" else self._spawn
        self._relaunch = self._launch if forks_again else self._spawn
        self._processes: dict[Task, Process] = {}
        self._restarts = Restarts()
        self._started: dict[Task, float] = {}
        self._lock = threading.RLock()  # of the processes, which a watch may kill and start
        self._lifeline, self._lifeline_ours = os.pipe()

    def start(self) -> None:
        """Starts every task; call before this process has made any TensorFlow object."""
        for task in self._spec.all_tasks():
            self._processes[task] = self._launch(task)
            self._started[task] = time.monotonic()

    def wait_until_serving(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Returns when every task accepts connections.

        Args:
            say: takes a line for people about those that do, every few seconds.

        Raises:
            TaskDiedError: a task ended instead, or did not answer for `START_SECONDS`.
        """
        began = said_at = time.monotonic()
        missing = dict(self._processes)
        new: list[Task] = []  # that people have not heard of
        while missing:
            for task, process in list(missing.items()):
                if _accepts(self._spec.addresses(task.job)[task.index]):
                    del missing[task]
                    new.append(task)
                elif process.poll() is not None:
                    raise TaskDiedError(self._epitaph(task, "at start-up"))
            now = time.monotonic()
            if missing and now - began > START_SECONDS:
                task = next(iter(missing))
                end = self.last_words(task)
                raise TaskDiedError(f"{task} did not serve within {START_SECONDS:.0f} s; {end}")
            if new and (now - said_at > SAY_SECONDS or not missing):
                of = len(self._processes)
                say(tasks_there(self._spec, new, of - len(missing), of))
                new, said_at = [], now
            time.sleep(0.01)

    def ended(self, job: str) -> list[Task]:
        """The tasks of a job whose processes have ended."""
        with self._lock:
            return [task for task in self.tasks(job) if self._processes[task].poll() is not None]

    def check(self, job: str) -> list[str]:
        """Starts the tasks of a job again that have ended; one line for each.

        Raises:
            TaskDiedError: one was started again too often and never was well, nor was another.
        """
        with self._lock:
            waiting = self.waiting(job)
            return [self._restart(task) for task in self.ended(job) if task not in waiting]

    def waiting(self, job: str) -> list[Task]:
        """Those of a job that have ended too often and are started again after a while."""
        now = time.monotonic()
        return [
            task
            for task in self.ended(job)
            if not self._restarts.is_given_up(task)
            and now < self._started[task] + self._restarts.pause(task)
        ]

    def are_well(self, *tasks: Task) -> None:
        """Tasks do their work: each may be started again as often as at first."""
        self._restarts.are_well(*tasks)

    def tasks(self, job: str) -> list[Task]:
        """The tasks of a job."""
        return [task for task in self._spec.all_tasks() if task.job == job]

    def kill(self, task: Task) -> None:
        """Ends a task that does not answer; on any thread."""
        with self._lock:
            process = self._processes.get(task)
            if process is not None and process.poll() is None:
                process.signal_group(signal.SIGKILL)

    def begin_anew(self, job: str, environment: dict[str, str]) -> list[str]:
        """Ends the tasks of a job and starts them again; see `Control`."""
        os.environ.update(environment)
        for task in self.tasks(job):
            self.kill(task)
        while len(self.ended(job)) < len(self.tasks(job)):
            time.sleep(0.01)
        return self.check(job)

    def may_be_starting(self, task: Task, silent: float) -> bool:
        """Whether a task that has been silent for so long (seconds) is on its way to serve."""
        age = time.monotonic() - self._started[task]
        return age < min(silent, START_SECONDS)

    def pid(self, task: Task) -> int:
        """The process id of a task."""
        return self._processes[task].pid

    def stop(self) -> None:
        """Ends every task: SIGTERM, then SIGKILL for those that are still there."""
        for process in self._processes.values():
            process.signal_group(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if all(process.poll() is not None for process in self._processes.values()):
                break
            time.sleep(0.01)
        for process in self._processes.values():
            process.signal_group(signal.SIGKILL)
            while process.poll() is None:
                time.sleep(0.005)
        self._processes.clear()

    def _restart(self, task: Task) -> str:
        if self._restarts.is_given_up(task):
            raise TaskDiedError(self._epitaph(task, "during the run"))
        how = describe_exit(self._processes[task].returncode)
        with self._lock:
            self._processes[task] = self._relaunch(task)
            self._started[task] = time.monotonic()
        return f"{task} {how}; {self._restarts.count(task)}"

    def _log(self, task: Task) -> pathlib.Path:
        return self._log_dir / f"{task.job}-{task.index}.log"

    def fork(self, body: Callable[[], int]) -> Process:
        """A fork of this process, which ends with it; see `process`."""
        return fork(body, self._lifeline, self._lifeline_ours)

    def _fork(self, task: Task) -> Process:
        def serve() -> int:
            for number in ENDING:
                signal.signal(number, signal.SIG_DFL)
            _redirect_output(self._log(task))
            self._roles[task.job].serve(self._spec, task)
            return 1  # a task serves until it is told to end

        return self.fork(serve)

    def _spawn(self, task: Task) -> Process:
        role = self._roles[task.job]
        environment = dict(os.environ)
        environment["TF_CONFIG"] = self._spec.tf_config(task)
        environment[lifeline.ENVIRONMENT_VARIABLE] = str(self._lifeline)
        inherited, address = [self._lifeline], self._spec.addresses(task.job)[task.index]
        if (held := reservation(address)) is not None:
            inherited.append(held)
            port = address.rpartition(":")[2]
            environment[RESERVATION_VARIABLE] = f"{port}={held}"
        with self._log(task).open("ab") as log:
            popen = subprocess.Popen(
                [*interpreter(role.module), *role.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=inherited,
                start_new_session=True,
            )
        return Process(popen.pid, popen)

    def epitaphs(self) -> str:
        """How tasks have ended, and the ends of their logs; empty where none has."""
        ended = [*of_servers(self.ended), *self.ended("worker"), *self.ended("actor")]
        return "\n".join(self._epitaph(task, "during the run") for task in ended)

    def _epitaph(self, task: Task, when: str) -> str:
        how = describe_exit(self._processes[task].returncode)
        return f"{task} {how} {when}; {self.last_words(task)}"

    def last_words(self, task: Task) -> str:
        """The end of a task's log."""
        log = self._log(task)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        lines = text.splitlines()[-TAIL_LINES:]
        if not lines:
            return f"its log {log} is empty"
        return "\n".join([f"the end of its log {log}:", *(f"    {line}" for line in lines)])


@contextlib.contextmanager
def running(
    cluster: LocalCluster,
    say: Callable[[str], None] = lambda _: None,
    timed: Callable[[str], contextlib.AbstractContextManager[None]] = lambda _: (
        contextlib.nullcontext()
    ),
) -> Iterator[LocalCluster]:
    """Starts a cluster, waits until it serves, and stops it however the block ends.

    Args:
        cluster: the cluster.
        say: takes lines for people about tasks that have come.
        timed: gives a block for what is done, which measures it.
    """
    try:
        with timed("starting tasks"):
            cluster.start()
        with timed("waiting for tasks to serve"):
            cluster.wait_until_serving(say)
        yield cluster
    finally:
        with timed("closing tasks"):
            cluster.stop()


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
        return True
    return False


def describe_exit(returncode: int | None) -> str:
    """For people: how a process ended."""
    if returncode is not None and returncode < 0:
        return f"was killed by {signal.Signals(-returncode).name}"
    return f"ended with exit code {returncode}"


def _redirect_output(log: pathlib.Path) -> None:
    """Sends this process's output, TensorFlow's C++ output included, to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    streams.forgive()
