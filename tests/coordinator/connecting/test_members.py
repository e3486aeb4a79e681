"""Workers that go and come, with a coordinator like TensorFlow's."""

import concurrent.futures
import contextlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import tensorflow as tf
from support import seen_by
from tensorflow.python.distribute.coordinator import cluster_coordinator

from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.coordinator.connecting import members
from ps_dqn.coordinator.connecting.members import Members, PartialSpec

SPEC = ClusterSpec("c:1", ("p:1", "p:2"), ("w:1", "w:2", "w:3"))


class Handler:
    """As TensorFlow's: after a failure it connects to the cluster as it is then."""

    def __init__(self, present: tuple[int, ...]):
        cluster = PartialSpec(SPEC, present).as_cluster_def()
        self._server_def = tf.train.ServerDef(cluster=cluster, job_name="chief")
        self.connected: list[dict[int, str]] = []

    def _validate_preemption_failure(self, error: Exception) -> None:
        if not isinstance(error, tf.errors.UnavailableError) or "/job:worker" not in str(error):
            raise error

    def stop(self) -> None:
        self.is_stopped = True

    @property
    def workers(self) -> dict[int, str]:
        jobs = {job.name: dict(job.tasks) for job in self._server_def.cluster.job}
        assert jobs["ps"] == {0: "p:1", 1: "p:2"}
        return jobs["worker"]

    @contextlib.contextmanager
    def wait_on_failure(
        self,
        on_failure_fn: Callable[[Exception], None],
        on_recovery_fn: Callable[[], None],
        worker_device_name: str,
    ) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            self._validate_preemption_failure(error)
            on_failure_fn(error)
            self.connected.append(self.workers)
            on_recovery_fn()


class Worker:
    """As TensorFlow's, which runs closures, and puts one back that fails."""

    def __init__(self, index: int, handler: Handler):
        self.worker_index, self.device_name = index, f"/job:worker/replica:0/task:{index}"
        self._handler = handler
        self.done: list[Any] = []
        self.put_back: list[Any] = []
        self.recoveries = 0

    def stop(self) -> None:
        self.is_stopped = True

    def _process_closure(self, closure: Any) -> None:
        with self._handler.wait_on_failure(
            lambda error: self._on_closure_failure(closure, error),
            self._on_worker_recovery,
            self.device_name,
        ):
            if closure == "is lost":
                raise tf.errors.UnavailableError(None, None, self.device_name)
            if isinstance(closure, Exception):
                raise closure
            self.done.append(closure)

    def _on_closure_failure(self, closure: Any, error: Exception) -> None:
        self.put_back.append(closure)

    def _on_worker_recovery(self) -> None:
        self.recoveries += 1


class Fleet:
    """Workers of which some answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *present: int):
        self.handler = Handler(present)
        self.workers = [Worker(index, self.handler) for index in range(3)]
        self.counted: list[Exception] = []  # by TensorFlow, which takes the server for lost
        self.cluster = types.SimpleNamespace(
            failure_handler=self.handler,
            workers=self.workers,
            closure_queue=cluster_coordinator._CoordinatedClosureQueue(),
            _record_and_ignore_transient_ps_failure=self.counted.append,
        )
        coordinator: Any = types.SimpleNamespace(_cluster=self.cluster)
        self.members = Members(coordinator, SPEC, present)
        self.asked: list[str] = []
        self.answers: Iterator[bool] = iter(())
        self.gone: set[int] = set()  # without a word
        self.servers: Iterator[bool] = iter(())  # whether they answer; then they do
        self.looks: list[int] = []
        monkeypatch.setattr(members.health, "answers", self._answers)
        seen_by.clock(monkeypatch, members, sleep=lambda seconds: None)
        self.known: list[Mapping[Task, str]] = []  # whom TensorFlow was to know again
        monkeypatch.setattr(members.known_tasks, "wait_until_known", self.known.append)

    def _answers(self, address: str, timeout: float) -> bool:
        if address in SPEC.ps:
            return next(self.servers, True)
        index = SPEC.workers.index(address)
        if index in self.handler.workers:  # one that is not missed yet
            self.looks.append(index)
            return index not in self.gone
        self.asked.append(address)
        return next(self.answers)


def test_a_connection_is_to_those_that_are_there_with_the_numbers_they_have() -> None:
    whole = tf.train.ClusterSpec(SPEC.as_dict()).as_cluster_def()
    assert PartialSpec(SPEC, range(3)).as_cluster_def() == whole
    partial = PartialSpec(SPEC, (0, 2))
    jobs = {job.name: dict(job.tasks) for job in partial.as_cluster_def().job}
    assert jobs["worker"] == {0: "w:1", 2: "w:3"}
    assert jobs["ps"] == {0: "p:1", 1: "p:2"}
    assert len(partial.as_dict()["worker"]) == 3  # TensorFlow counts them


def test_a_worker_that_is_lost_is_out_of_the_cluster_until_it_answers(monkeypatch) -> None:
    fleet = Fleet(monkeypatch, 0, 1, 2)
    worker = fleet.workers[1]
    fleet.answers = iter([False, False, True])

    worker._process_closure("is lost")

    assert fleet.asked == ["w:2"] * 3
    assert fleet.known == [{Task("worker", 1): "w:2"}]
    assert worker.put_back == ["is lost"]
    assert fleet.handler.connected == [{0: "w:1", 1: "w:2", 2: "w:3"}]
    assert (worker.recoveries, fleet.members.present) == (1, {0, 1, 2})
    worker._process_closure("another")
    assert worker.done == ["another"]


def test_a_worker_that_dies_as_it_reads_a_request_is_lost(monkeypatch) -> None:
    fleet = Fleet(monkeypatch, 0, 1, 2)
    worker, parse = fleet.workers[1], "Unable to parse request"
    cut_off = tf.errors.InternalError(None, None, f"{parse}\nfrom {worker.device_name}")
    fleet.answers = iter([True])
    worker._process_closure(cut_off)
    assert (worker.put_back, worker.recoveries) == ([cut_off], 1)

    for message in (parse, f"division by zero on {worker.device_name}"):
        with pytest.raises(tf.errors.InternalError):
            worker._process_closure(tf.errors.InternalError(None, None, message))


def test_one_that_comes_back_does_not_wait_for_others_that_are_lost(monkeypatch) -> None:
    fleet = Fleet(monkeypatch, 0, 1, 2)

    def others() -> Iterator[bool]:
        fleet.answers = iter([True])
        fleet.workers[2]._process_closure("is lost")
        assert fleet.handler.connected == [{0: "w:1", 2: "w:3"}]
        yield True

    fleet.answers = others()
    fleet.workers[1]._process_closure("is lost")

    assert fleet.handler.connected[1:] == [{0: "w:1", 1: "w:2", 2: "w:3"}]


def test_who_is_gone_without_a_word_keeps_nobody_from_coming_back(monkeypatch) -> None:
    fleet = Fleet(monkeypatch, 0, 1, 2)
    fleet.gone, fleet.answers = {2}, iter([True])

    fleet.workers[1]._process_closure("is lost")

    assert sorted(fleet.looks) == [0, 2]
    assert fleet.handler.connected == [{0: "w:1", 1: "w:2"}], "TensorFlow would wait for the other"
    assert fleet.members.present == {0, 1}
    # It finds out with its next closure, and is waited for as any.
    fleet.answers = iter([False, True])
    fleet.workers[2]._process_closure("next")
    assert fleet.workers[2].put_back == ["next"]
    assert fleet.handler.connected[1:] == [{0: "w:1", 1: "w:2", 2: "w:3"}]


def test_without_a_server_nobody_comes_in(monkeypatch) -> None:
    """TensorFlow would wait for it, with a lock that whoever closes the connection needs."""
    fleet = Fleet(monkeypatch, 0, 1, 2)
    fleet.answers = iter([True])

    def is_back_later() -> Iterator[bool]:
        for _ in range(3):
            assert fleet.handler.workers == {0: "w:1", 2: "w:3"}
            yield False

    fleet.servers = is_back_later()
    fleet.workers[1]._process_closure("is lost")
    assert fleet.handler.connected == [{0: "w:1", 1: "w:2", 2: "w:3"}]

    def the_run_is_lost() -> Iterator[bool]:
        fleet.members.let_nobody_in()
        yield False

    fleet.answers, fleet.servers = iter([True]), the_run_is_lost()
    with pytest.raises(SystemExit):
        fleet.workers[1]._process_closure("is lost")
    assert len(fleet.handler.connected) == 1


def test_one_that_was_never_there_gives_its_closure_back_and_comes_as_one_that_was_lost(
    monkeypatch,
) -> None:
    fleet = Fleet(monkeypatch, 0)
    worker = fleet.workers[2]
    assert fleet.members.present == {0}
    fleet.answers = iter([False, True])

    worker._process_closure("first")

    assert (worker.done, worker.put_back, worker.recoveries) == ([], ["first"], 1)
    assert fleet.handler.connected == [{0: "w:1", 2: "w:3"}]
    worker._process_closure("second")
    assert worker.done == ["second"]


def test_a_connection_that_was_lost_looks_for_nobody(monkeypatch) -> None:
    fleet = Fleet(monkeypatch, 0, 1, 2)

    def closes() -> Iterator[bool]:
        fleet.members.close()
        yield False

    fleet.answers = closes()
    with pytest.raises(SystemExit):  # ends the thread, in silence
        fleet.workers[1]._process_closure("is lost")
    with pytest.raises(SystemExit):
        fleet.workers[2]._process_closure("is lost")
    assert fleet.handler.connected == []


def test_threads_of_a_connection_that_was_lost_end_and_what_runs_is_not_cut_off(
    monkeypatch,
) -> None:
    fleet = Fleet(monkeypatch, 0, 1, 2)
    waiting = fleet.cluster.closure_queue
    with concurrent.futures.ThreadPoolExecutor() as pool:
        thread = pool.submit(waiting.get)

        fleet.members.close()

        try:
            assert thread.result(30) is None  # TensorFlow's sign to end
            assert not waiting._cancellation_mgr.is_cancelled
        finally:
            waiting.stop()
    assert all(each.is_stopped for each in (fleet.handler, *fleet.workers))


SERVER = "Additional GRPC error information from remote target /job:ps"


def from_server(kind: type[tf.errors.OpError], index: int) -> tf.errors.OpError:
    """What a worker's closure fails with that does not reach a parameter server."""
    return kind(None, None, f"{SERVER}/replica:0/task:{index}")


def test_a_server_that_answers_is_not_lost_because_a_worker_does_not_reach_it(monkeypatch) -> None:
    fleet = Fleet(monkeypatch, 0, 1, 2)
    monkeypatch.setattr(members.known_tasks, "is_ours", lambda address: address == "p:2")
    passes = fleet.cluster._record_and_ignore_transient_ps_failure

    for _ in range(5):
        assert passes(from_server(tf.errors.UnavailableError, 1))
    assert fleet.counted == []
    errors = [
        from_server(tf.errors.UnavailableError, 0),  # it does not answer here either
        from_server(tf.errors.AbortedError, 1),  # it is another process, or has forgotten
        tf.errors.UnavailableError(None, None, "/job:worker/replica:0/task:1"),
        tf.errors.UnavailableError(None, None, SERVER),  # nobody knows which
    ]
    for error in errors:
        assert not passes(error)
    fleet.members.close()
    assert not passes(from_server(tf.errors.UnavailableError, 1))
    assert [str(error) for error in fleet.counted[:-1]] == [str(error) for error in errors]
    assert len(fleet.counted) == len(errors) + 1
