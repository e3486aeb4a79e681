"""Which tasks are given up, and what is done about them."""

import types

from support.processes import until
from support.watched import PS, SPEC, WORKER, Watched

from ps_dqn.cluster.control import TaskDiedError
from ps_dqn.cluster.spec import Placement, Task
from ps_dqn.config import Faults
from ps_dqn.coordinator.supervision.task_failures import TaskFailures
from ps_dqn.coordinator.supervision.watchdog import Watchdog


def test_a_silent_local_task_is_ended_once(monkeypatch):
    case = Watched(monkeypatch, is_local=True)
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
    case = Watched(monkeypatch, is_local=True)
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
    case = Watched(monkeypatch, is_local=True)
    case.starting = {PS}
    for _ in range(2):
        case.answers(ps=11.0)
        case.answers()
    assert case.said == 2 * ["parameter server 0 has not answered for 11 s: it is still starting"]


def test_a_task_that_was_ended_and_never_comes_up_is_ended_again(monkeypatch):
    case = Watched(monkeypatch, is_local=True)
    case.answers(worker=7.0)
    case.starting, case.process = {WORKER}, 1001
    case.answers(worker=60.0)
    case.starting = set()
    case.answers(worker=70.0)
    case.answers(worker=72.0)
    assert case.killed == [WORKER, WORKER]


def test_connections_to_a_silent_remote_task_are_cut_again_and_again(monkeypatch):
    case = Watched(monkeypatch, is_local=False)
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
    case = Watched(monkeypatch, is_local=True, worker_timeout=20.0, ps_timeout=40.0)
    case.answers(worker=19.0, ps=39.0)
    assert case.killed == []
    case.answers(worker=21.0, ps=39.0)
    case.answers(ps=41.0)
    assert case.killed == [WORKER, PS]


def test_it_looks_until_the_block_ends(monkeypatch):
    looked = []

    class Silent:
        def __init__(self, addresses: object):
            pass

        def look(self) -> dict[Task, float]:
            looked.append(True)
            return {}

    monkeypatch.setattr("ps_dqn.cluster.watch.Watch", Silent)
    monkeypatch.setattr("ps_dqn.coordinator.supervision.watchdog.PERIOD", 0.001)
    placement = Placement("remote", SPEC, "fork", 1, 2)
    watchdog = Watchdog(Faults(), placement, None, print, TaskFailures(), str)
    monkeypatch.setattr("ps_dqn.coordinator.supervision.watchdog.Peer", str)
    with watchdog.looking() as thread:
        while len(looked) < 3:
            thread.join(0.001)
    thread.join(30)
    assert not thread.is_alive()


def test_a_look_that_fails_is_said_once_and_the_next_one_follows(monkeypatch):
    errors = [None, ValueError("no\nplace"), ValueError("no\nplace"), None, KeyError("a")]

    def look() -> dict[Task, float]:
        if errors and (error := errors.pop(0)) is not None:
            raise error
        return {WORKER: 7.0} if not errors else {}

    case = Watched(monkeypatch, is_local=True)
    case.watchdog._servers.look = look
    monkeypatch.setattr("ps_dqn.coordinator.supervision.watchdog.PERIOD", 0.001)
    with case.watchdog.looking():
        until(lambda: case.killed, 30, "the silent worker to be ended")
    assert case.said == [
        "a look after the tasks failed (ValueError: no place): it is tried again",
        "a look after the tasks failed (KeyError: 'a'): it is tried again",
        "worker 1 has not answered for 7 s: it is ended",
    ]


def test_tasks_that_end_are_started_again_while_the_run_waits_for_all(monkeypatch):
    case = Watched(monkeypatch, is_local=True)
    started, looks = [], []

    def look() -> dict[Task, float]:
        looks.append(True)
        return {}

    def look_again() -> None:
        ended = len(looks)
        until(lambda: len(looks) >= ended + 2, 60, "a look that begins now")

    def check(job: str) -> list[str]:
        started.append(job)
        return [f"a {job} was started again"]

    case.cluster.check = check
    case.watchdog._servers.look = look
    monkeypatch.setattr("ps_dqn.coordinator.supervision.watchdog.PERIOD", 0.001)
    with case.watchdog.looking() as thread:
        with case.watchdog.replacing():
            while len(started) < 4:
                thread.join(0.001)
        look_again()  # one had begun
        before = len(started)
        look_again()
        assert len(started) == before, "the loop does so itself"
    jobs = ("ps", "replay", "worker")
    assert case.said[:3] == [f"a {job} was started again" for job in jobs]


def test_one_that_keeps_ending_while_the_run_waits_ends_it_with_what_there_is(monkeypatch):
    case, codes = Watched(monkeypatch, is_local=True), []

    def check(_: str) -> list[str]:
        raise TaskDiedError("worker 0 was killed by SIGKILL")

    case.cluster.check = check
    monkeypatch.setattr("ps_dqn.cluster.watch.Watch", lambda _: types.SimpleNamespace(look=dict))
    monkeypatch.setattr("ps_dqn.coordinator.supervision.watchdog.os._exit", codes.append)
    with case.watchdog.replacing():
        case.watchdog._replace()
    assert codes == [1]
    assert case.said == ["error: worker 0 was killed by SIGKILL", "saved what there was"]
