"""Tasks that stand still: TensorFlow waits for them for good, and so would everybody else.

A task stands still if its server does not answer, if it does not say what the coordinator asks it,
if a worker neither ends its closure nor goes on with it, as far as its pulses say, or if what came
of a closure that it ended is not here long after. Where the task is of this machine it is ended,
and started again as one that died; where others start it, this process's connections to it are.
Either way TensorFlow then does what it does for a task that is lost: a worker's closure goes to
another one, and without a parameter server the run connects anew.
"""

import contextlib
import math
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping

from ps_dqn.cluster import connections, watch
from ps_dqn.cluster.connections import Peer
from ps_dqn.cluster.control import Control, TaskDiedError
from ps_dqn.cluster.pulse import Heard
from ps_dqn.cluster.spec import SERVERS, Placement, Task
from ps_dqn.config import Faults
from ps_dqn.config.faults import ANSWER_SECONDS, FIRST_SECONDS, LEAST_SECONDS, USUAL_TIMES
from ps_dqn.coordinator.scheduling.in_flight import InFlight
from ps_dqn.coordinator.supervision.progress import Progress
from ps_dqn.coordinator.supervision.task_failures import OVERDUE, SILENT, TaskFailures
from ps_dqn.run.signals import FAILED
from ps_dqn.user_code import one_line
from ps_dqn.wire import asking

# From one look at all of them to the next (seconds).
PERIOD = 0.5
# Of a task that takes its time to start people hear this often (seconds).
REMINDER = 10.0


class Watchdog:
    """Looks at all tasks of a run again and again, on a thread of its own."""

    def __init__(
        self,
        options: Faults,
        placement: Placement,
        cluster: Control | None,
        say: Callable[[str], None],
        failures: TaskFailures,
        save: Callable[[], str],
        pulses: Callable[[], Mapping[Task, Heard]] = dict,
    ):
        """Does nothing yet.

        Args:
            options: how long tasks may stand still.
            placement: where they are.
            cluster: they, where they are ours to end.
            say: shows people a line; on any thread.
            failures: of tasks, which are noticed here.
            save: writes what this process has in memory before it ends; what that is, for people.
            pulses: the last one of each task.
        """
        self._failures, self._save = failures, save
        self._options, self._cluster, self._say = options, cluster, say
        spec = placement.spec
        self._task_at = spec.task_at
        self._addresses = {task: spec.addresses(task.job)[task.index] for task in spec.tasks()}
        self._servers = watch.Watch(self._addresses)
        self.peers: dict[Task, Peer] = {}  # where others start them
        # Tasks that were given up, and do not answer yet; the processes of those that are ours.
        self._silent: dict[Task, int] = {}
        self._starting: dict[Task, float] = {}  # silent for how long when next told of (seconds)
        self._in_flight: InFlight | None = None
        self._progress = Progress(pulses)
        self._overdue: set[int] = set()  # workers that were given up with the closure they have
        self._uncopied: set[int] = set()  # workers that were given up with a result of theirs
        self._unheard: set[Task] = set()  # tasks that were given up with what they are asked
        self._replaces = False  # tasks of ours that end
        self.replaced = 0  # that way
        self._stopped = threading.Event()

    @contextlib.contextmanager
    def looking(self) -> Iterator[threading.Thread]:
        """Looks until the block ends, on the thread that it gives."""
        thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            self._stopped.set()

    def heard(self, tasks: Iterable[Task]) -> None:
        """These are there, so they are missed once they stand still; on any thread."""
        for task in tasks:
            self._servers.heard(task)

    def follow(self, in_flight: InFlight | None) -> None:
        """Looks at these closures too, from now on; None: at no closures."""
        self._in_flight = in_flight

    @contextlib.contextmanager
    def replacing(self) -> Iterator[None]:
        """Starts tasks of ours again that end, while this process waits for all of them to answer.

        TensorFlow gives that thread no time to do it itself. Where one ends again and again, so
        does this process.
        """
        self._replaces = self._cluster is not None
        try:
            yield
        finally:
            self._replaces = False

    def look_at_answers(self, silent: dict[Task, float]) -> None:
        """Gives up who has been silent for too long; takes for how long each has been (seconds)."""
        for task, seconds in silent.items():
            if task in self._silent or seconds > self._answer_seconds(task):
                self._on_silent(task, seconds)
        for task in self._starting.keys() - silent.keys():
            del self._starting[task]
        for task in self._silent.keys() - silent.keys():
            del self._silent[task]
            self._failures.answers(task)
            if self._cluster is None:
                self.peers[task].look_up()
                self._say(f"{task} answers again")

    def look_at_closures(self, in_flight: InFlight) -> None:
        """Gives up workers that take too long for a closure and do not go on, once for each."""
        seconds, idle = in_flight.seconds(), self._progress.seconds()
        still = {worker: min(taken, idle.get(worker, taken)) for worker, taken in seconds.items()}
        late = {
            worker
            for worker, stood in still.items()
            if stood > self._closure_seconds(in_flight.slowest(worker))
        }
        for worker in late - self._overdue:
            task = Task("worker", worker)
            self._failures.noticed(task, OVERDUE, still[worker])
            self._give_up(task, f"{task} has not ended a closure in {seconds[worker]:.0f} s")
        self._overdue = late

    def look_at_results(self, seconds: Mapping[int, float]) -> None:
        """Gives up workers whose results take too long to be copied here, once for each.

        Args:
            seconds: for how long one of each worker could have been.
        """
        late = {worker for worker, taken in seconds.items() if taken > LEAST_SECONDS}
        for worker in late - self._uncopied:
            task = Task("worker", worker)
            self._failures.noticed(task, OVERDUE, seconds[worker])
            self._give_up(task, f"a result of {task} has not come in {seconds[worker]:.0f} s")
        self._uncopied = late

    def look_at_questions(self, seconds: Mapping[Task, float]) -> None:
        """Gives up tasks that take too long for what they are asked, once for each question.

        Args:
            seconds: for how long each that is asked now has been.
        """
        late = {task for task, taken in seconds.items() if taken > self._question_seconds(task)}
        for task in late - self._unheard:
            self._failures.noticed(task, OVERDUE, seconds[task])
            self._give_up(task, f"{task} has not said what it was asked in {seconds[task]:.0f} s")
        self._unheard = late

    def _run(self) -> None:
        if self._cluster is None:
            self.peers = {task: Peer(address) for task, address in self._addresses.items()}
        told = ""
        while not self._stopped.wait(PERIOD):
            try:
                self._look()
            except Exception as error:  # without a next look a task could hang for good
                if told != (told := one_line(error)):
                    traceback.print_exc()  # into the log
                    self._say(f"a look after the tasks failed ({told}): it is tried again")

    def _look(self) -> None:
        if self._replaces:
            self._replace()
        silent = self._servers.look()
        if self._cluster is None:
            connections.end_silent_ones()
            # Who has never been there is waited for, and people know.
            silent = {task: silent[task] for task in silent if self._servers.has_answered(task)}
        self.look_at_answers(silent)
        if self._in_flight is not None:
            self.look_at_closures(self._in_flight)
            self.look_at_results(self._in_flight.uncopied())
        asked = asking.under_way().items()
        self.look_at_questions({self._task_at(place): taken for place, taken in asked})

    def _replace(self) -> None:
        assert self._cluster is not None
        try:
            for job in (*SERVERS, "worker"):
                for line in self._cluster.check(job):
                    self._say(line)
                    self.replaced += 1
        except TaskDiedError as error:
            self._say(f"error: {error}")
            if saved := self._save():
                self._say(saved)
            os._exit(FAILED)  # the tasks that are left hold on to this process's life

    def _answer_seconds(self, task: Task) -> float:
        if task.job in SERVERS:
            return self._options.ps_timeout
        return self._options.worker_timeout or ANSWER_SECONDS

    def _closure_seconds(self, slowest: float | None) -> float:
        """How long a worker may take for a closure, or make nothing more of it."""
        if self._options.worker_timeout is not None:
            return self._options.worker_timeout
        return FIRST_SECONDS if slowest is None else max(USUAL_TIMES * slowest, LEAST_SECONDS)

    def _question_seconds(self, task: Task) -> float:
        if task.job in SERVERS:
            return max(self._options.ps_timeout, LEAST_SECONDS)
        return self._closure_seconds(None)  # it may be in the middle of one

    def _on_silent(self, task: Task, seconds: float) -> None:
        if self._stopped.is_set():
            return
        if self._cluster is not None and self._cluster.may_be_starting(task, seconds):
            if seconds >= self._starting.setdefault(task, REMINDER):
                self._starting[task] = seconds + REMINDER
                self._say(f"{task} has not answered for {seconds:.0f} s: it is still starting")
            return
        process = 0 if self._cluster is None else self._cluster.pid(task)
        if self._silent.get(task) != process:
            self._silent[task] = process
            self._failures.noticed(task, SILENT, seconds)
            self._give_up(task, f"{task} has not answered for {math.floor(seconds)} s")
        elif self._cluster is None:
            # A stopped process still accepts new connections, on which TensorFlow waits too.
            self.peers[task].cut()

    def _give_up(self, task: Task, why: str) -> None:
        if self._cluster is not None:
            self._say(f"{why}: it is ended")
            self._cluster.kill(task)
            return
        without = "once it answers" if task.job in SERVERS else "without it until it answers"
        self._say(f"{why}: the run goes on {without}")
        self.peers[task].cut()
