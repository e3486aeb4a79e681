"""Which worker has a closure, since when, and who was lost."""

import types
from collections.abc import Callable
from typing import Any

import pytest

from ps_dqn.coordinator.scheduling import in_flight
from ps_dqn.coordinator.scheduling.in_flight import InFlight


class Worker:
    """As TensorFlow's: runs closures, and puts one back that fails."""

    def __init__(self, index: int):
        self.worker_index = index
        self.put_back: list[Any] = []
        self.flying: InFlight

    def _process_closure(self, closure: Any) -> None:
        closure(self)

    def _on_closure_failure(self, closure: Any, error: Exception) -> None:
        self.put_back.append((closure, error))


class Clock:
    """`time.monotonic`, by hand."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(in_flight, "time", made)
    return made


class Closure:
    """As TensorFlow's: knows which function it calls."""

    def __init__(self, clock: Clock, seconds: float, name: bytes = b"train"):
        self._concrete_function = types.SimpleNamespace(name=name)
        self._clock, self._seconds = clock, seconds
        self.result = object()
        self.seen: list[Any] = []  # while it runs

    def maybe_call_with_output_remote_value(self, method: Callable[[Any], Any]) -> Any:
        return method(self.result)

    def __call__(self, worker: Worker) -> None:
        self._clock.now += self._seconds
        self.seen += [worker.flying.seconds(), worker.flying.slowest(worker.worker_index)]


def follow(workers: list[Worker], lost: list[int]) -> InFlight:
    coordinator: Any = types.SimpleNamespace(_cluster=types.SimpleNamespace(workers=workers))
    flying = InFlight(coordinator, lost.append)
    for worker in workers:
        worker.flying = flying
    return flying


def test_a_closure_is_in_flight_until_it_ends(clock):
    workers = [Worker(0), Worker(1)]
    flying = follow(workers, [])
    assert flying.seconds() == {}
    for seconds, known in ((3.0, None), (2.0, 3.0), (4.0, 3.0), (1.0, 4.0)):
        closure = Closure(clock, seconds)
        workers[1]._process_closure(closure)
        assert closure.seen == [{1: seconds}, known]
    assert flying.seconds() == {}
    other = Closure(clock, 1.0)
    workers[0]._process_closure(other)
    assert other.seen == [{0: 1.0}, None], "another worker's closures say nothing of it"


def test_closures_of_another_function_say_nothing_of_one(clock):
    [worker] = workers = [Worker(0)]
    follow(workers, [])
    worker._process_closure(Closure(clock, 2.0))
    for known in (None, 100.0):
        evaluation = Closure(clock, 100.0, b"evaluate")
        worker._process_closure(evaluation)
        assert evaluation.seen == [{0: 100.0}, known]
    trained = Closure(clock, 2.0)
    worker._process_closure(trained)
    assert trained.seen == [{0: 2.0}, 2.0]


def test_a_lost_worker_has_no_closure_and_its_time_does_not_count(clock):
    lost: list[int] = []
    [worker] = workers = [Worker(3)]
    flying = follow(workers, lost)
    error = RuntimeError("gone")

    class Lost(Closure):
        def __call__(self, worker):
            clock.now += 5.0
            worker._on_closure_failure(self, error)
            super().__call__(worker)  # TensorFlow waits for it to come back

    closure, next_one = Lost(clock, 50.0), Closure(clock, 1.0)
    worker._process_closure(closure)
    assert (lost, closure.seen[0], worker.put_back) == ([3], {}, [(closure, error)])
    worker._process_closure(next_one)
    assert next_one.seen == [{3: 1.0}, None]
    assert flying.seconds() == {}


def test_what_came_of_a_closure_is_followed_until_it_is_here(clock):
    workers = [Worker(0), Worker(1)]
    flying = follow(workers, [])
    closures = [Closure(clock, 2.0) for _ in range(3)]
    for index, closure in zip((1, 1, 0), closures, strict=True):
        workers[index]._process_closure(closure)
    clock.now += 5.0
    assert flying.uncopied() == {1: 9.0, 0: 5.0}, "the longest of each worker"
    for closure, left in zip(closures, ({1: 7.0, 0: 5.0}, {0: 5.0}, {}), strict=True):
        flying.copied(closure.result)
        assert flying.uncopied() == left


def test_a_result_may_be_here_before_its_closure_has_ended(clock):
    [worker] = workers = [Worker(0)]
    flying = follow(workers, [])

    class Quick(Closure):
        def __call__(self, worker):
            assert flying.uncopied() == {0: 0.0}
            flying.copied(self.result)
            super().__call__(worker)

    worker._process_closure(Quick(clock, 1.0))
    clock.now += 100.0
    assert flying.uncopied() == {}
