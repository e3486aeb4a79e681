"""Which tasks are given up, and what is done about them."""

import types
from typing import Any, NamedTuple

import pytest

from ps_dqn.cluster.control import TaskDiedError
from ps_dqn.cluster.spec import ClusterSpec, Placement, Task
from ps_dqn.config import Faults
from ps_dqn.config.faults import FIRST_SECONDS, LEAST_SECONDS, USUAL_TIMES
from ps_dqn.coordinator.task_failures import TaskFailures
from ps_dqn.coordinator.watchdog import Watchdog

WORKER, PS = Task("worker", 1), Task("ps", 0)
SPEC = ClusterSpec("localhost:1", ("localhost:2",), ("localhost:3", "localhost:4"))


class Connections(NamedTuple):
    """Those to one task, which notes when they are cut."""

    task: Task
    cuts: list[str]

    def cut(self) -> None:
        self.cuts.append(SPEC.addresses(self.task.job)[self.task.index])

    def look_up(self) -> None:
        pass


class Case:
    """A watchdog, what it says, whom it kills and whose connections it cuts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_local: bool, **options: Any):
        self.said: list[str] = []
        self.killed: list[Task] = []
        self.cut: list[str] = []
        self.starting: set[Task] = set()
        self.process = 1000
        self.closures: dict[int, float] = {}
        self.slowest: dict[int, float] = {}
        self.cluster: Any = types.SimpleNamespace(
            kill=self.killed.append,
            may_be_starting=lambda task, _: task in self.starting,
            pid=lambda _: self.process,
        )
        placement = Placement("local" if is_local else "remote", SPEC, "fork", 1, 2)
        self.failures = TaskFailures()
        self.watchdog = Watchdog(
            Faults(**options),
            placement,
            self.cluster if is_local else None,
            self.said.append,
            self.failures,
            lambda: "saved what there was",
        )
        self.watchdog.peers = {task: Connections(task, self.cut) for task in SPEC.tasks()}
        self._in_flight: Any = types.SimpleNamespace(
            seconds=lambda: self.closures, slowest=self.slowest.get
        )

    def answers(self, **silent: float) -> None:
        """One look at the answers: for how long `ps` or `worker` have not answered."""
        names = {"ps": PS, "worker": WORKER}
        self.watchdog.look_at_answers({names[name]: each for name, each in silent.items()})

    def look(self) -> None:
        """One look at the closures."""
        self.watchdog.look_at_closures(self._in_flight)


def test_a_silent_local_task_is_ended_once(monkeypatch):
    case = Case(monkeypatch, is_local=True)
    case.answers(worker=5.9)
    assert (case.said, case.killed) == ([], [])
    case.answers(worker=6.4)
    case.answers(worker=8.4)
    assert case.said == ["worker 1 has not answered for 6 s: it is ended"]
    assert case.killed == [WORKER]
    case.answers()
    case.answers(worker=6.1)
    assert case.killed == [WORKER, WORKER]
    assert case.cut == []


def test_a_task_that_is_being_started_has_time(monkeypatch):
    case = Case(monkeypatch, is_local=True)
    case.starting = {PS}
    for silent in (9.0, 12.0, 13.0, 21.0, 30.0):
        case.answers(ps=silent)
    assert case.killed == []
    assert case.said == [
        "parameter server 0 has not answered for 12 s: it is still starting",
        "parameter server 0 has not answered for 30 s: it is still starting",
    ]
    case.starting = set()
    case.answers(ps=31.0)
    assert case.killed == [PS]


def test_people_hear_anew_of_a_task_that_starts_a_second_time(monkeypatch):
    case = Case(monkeypatch, is_local=True)
    case.starting = {PS}
    for _ in range(2):
        case.answers(ps=11.0)
        case.answers()
    assert case.said == 2 * ["parameter server 0 has not answered for 11 s: it is still starting"]


def test_a_task_that_was_ended_and_never_comes_up_is_ended_again(monkeypatch):
    case = Case(monkeypatch, is_local=True)
    case.answers(worker=7.0)
    case.starting, case.process = {WORKER}, 1001
    case.answers(worker=60.0)
    case.starting = set()
    case.answers(worker=70.0)
    case.answers(worker=72.0)
    assert case.killed == [WORKER, WORKER]


def test_connections_to_a_silent_remote_task_are_cut_again_and_again(monkeypatch):
    case = Case(monkeypatch, is_local=False)
    for silent in (6.5, 8.5, 10.5):
        case.answers(worker=silent, ps=silent - 5)
    assert case.said == [
        "worker 1 has not answered for 6 s: the run goes on without it until it answers"
    ]
    assert case.cut == ["localhost:4"] * 3
    case.answers()
    assert case.said[1:] == ["worker 1 answers again"]
    case.answers(ps=7)
    assert case.said[2:] == [
        "parameter server 0 has not answered for 7 s: the run goes on once it answers"
    ]
    assert case.cut[3:] == ["localhost:2"]


def test_limits_are_of_each_job(monkeypatch):
    case = Case(monkeypatch, is_local=True, worker_timeout=20.0, ps_timeout=40.0)
    case.answers(worker=19.0, ps=39.0)
    assert case.killed == []
    case.answers(worker=21.0, ps=39.0)
    case.answers(ps=41.0)
    assert case.killed == [WORKER, PS]


@pytest.mark.parametrize(
    ("options", "slowest", "limit"),
    [
        ({}, None, FIRST_SECONDS),
        ({}, 0.1, LEAST_SECONDS),
        ({}, 10.0, USUAL_TIMES * 10.0),
        ({"worker_timeout": 7.0}, None, 7.0),
        ({"worker_timeout": 7.0}, 10.0, 7.0),
    ],
)
def test_how_long_a_closure_may_take(monkeypatch, options, slowest, limit):
    case = Case(monkeypatch, is_local=True, **options)
    if slowest is not None:
        case.slowest[1] = slowest
    case.closures = {0: 0.0, 1: limit - 1}
    case.look()
    assert case.killed == []
    case.closures = {0: 0.0, 1: limit + 1}
    case.look()
    case.look()
    assert case.said == [f"worker 1 has not ended a closure in {limit + 1:.0f} s: it is ended"]
    assert case.killed == [WORKER]
    case.closures = {0: 0.0}
    case.look()
    case.closures = {1: limit + 1}
    case.look()
    assert case.killed == [WORKER, WORKER]


def test_a_remote_worker_that_is_late_loses_its_connections(monkeypatch):
    case = Case(monkeypatch, is_local=False, worker_timeout=7.0)
    case.closures = {1: 8.0}
    case.look()
    assert case.cut == ["localhost:4"]


@pytest.mark.parametrize(
    ("task", "options", "limit"),
    [
        (PS, {}, LEAST_SECONDS),
        (PS, {"ps_timeout": 90.0}, 90.0),
        (WORKER, {}, FIRST_SECONDS),
        (WORKER, {"worker_timeout": 7.0}, 7.0),
    ],
)
def test_how_long_a_question_may_take(monkeypatch, task, options, limit):
    case = Case(monkeypatch, is_local=True, **options)
    case.watchdog.look_at_questions({task: limit - 1})
    assert case.killed == []
    case.watchdog.look_at_questions({task: limit + 1})
    case.watchdog.look_at_questions({task: limit + 2})
    assert case.said == [f"{task} has not said what it was asked in {limit + 1:.0f} s: it is ended"]
    assert case.killed == [task]
    case.watchdog.look_at_questions({})
    case.watchdog.look_at_questions({task: limit + 1})
    assert case.killed == [task, task]


def test_it_looks_until_the_block_ends(monkeypatch):
    looked = []

    class Silent:
        def __init__(self, addresses: object):
            pass

        def look(self) -> dict[Task, float]:
            looked.append(True)
            return {}

    monkeypatch.setattr("ps_dqn.cluster.watch.Watch", Silent)
    monkeypatch.setattr("ps_dqn.coordinator.watchdog.PERIOD", 0.001)
    placement = Placement("remote", SPEC, "fork", 1, 2)
    watchdog = Watchdog(Faults(), placement, None, print, TaskFailures(), str)
    monkeypatch.setattr("ps_dqn.coordinator.watchdog.Peer", str)
    with watchdog.looking() as thread:
        while len(looked) < 3:
            thread.join(0.001)
    thread.join(30)
    assert not thread.is_alive()


def test_tasks_that_end_are_started_again_while_the_run_waits_for_all(monkeypatch):
    case = Case(monkeypatch, is_local=True)
    started = []

    def check(job: str) -> list[str]:
        started.append(job)
        return [f"a {job} was started again"]

    case.cluster.check = check
    monkeypatch.setattr("ps_dqn.cluster.watch.Watch", lambda _: types.SimpleNamespace(look=dict))
    monkeypatch.setattr("ps_dqn.coordinator.watchdog.PERIOD", 0.001)
    with case.watchdog.looking() as thread:
        with case.watchdog.replacing():
            while len(started) < 4:
                thread.join(0.001)
        thread.join(0.1)  # a look that had begun
        before = len(started)
        thread.join(0.1)
        assert len(started) == before, "the loop does so itself"
    assert case.said[:2] == ["a ps was started again", "a worker was started again"]


def test_one_that_keeps_ending_while_the_run_waits_ends_it_with_what_there_is(monkeypatch):
    case, codes = Case(monkeypatch, is_local=True), []

    def check(_: str) -> list[str]:
        raise TaskDiedError("worker 0 was killed by SIGKILL")

    case.cluster.check = check
    monkeypatch.setattr("ps_dqn.cluster.watch.Watch", lambda _: types.SimpleNamespace(look=dict))
    monkeypatch.setattr("ps_dqn.coordinator.watchdog.os._exit", codes.append)
    with case.watchdog.replacing():
        case.watchdog._replace()
    assert codes == [1]
    assert case.said == ["error: worker 0 was killed by SIGKILL", "saved what there was"]
