"""Which worker has a closure, since when, and who was lost."""

import types
from typing import Any

import pytest

from ps_dqn.coordinator import in_flight
from ps_dqn.coordinator.in_flight import InFlight


class Worker:
    """As TensorFlow's: runs closures, and puts one back that fails."""

    def __init__(self, index: int):
        self.worker_index = index
        self.put_back: list[Any] = []

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


def follow(workers: list[Worker], lost: list[int]) -> InFlight:
    coordinator: Any = types.SimpleNamespace(_cluster=types.SimpleNamespace(workers=workers))
    return InFlight(coordinator, lost.append)


def test_a_closure_is_in_flight_until_it_ends(clock):
    workers, seen = [Worker(0), Worker(1)], []
    flying = follow(workers, [])
    assert (flying.seconds(), flying.slowest(1)) == ({}, None)

    def closure(seconds):
        def run(worker):
            clock.now += seconds
            seen.append(flying.seconds())

        return run

    for seconds in (3.0, 2.0):
        workers[1]._process_closure(closure(seconds))
    assert seen == [{1: 3.0}, {1: 2.0}]
    assert (flying.seconds(), flying.slowest(0), flying.slowest(1)) == ({}, None, 3.0)


def test_a_lost_worker_has_no_closure_and_its_time_does_not_count(clock):
    lost: list[int] = []
    [worker] = workers = [Worker(3)]
    flying = follow(workers, lost)
    error, seen = RuntimeError("gone"), []

    def closure(worker):
        clock.now += 5.0
        worker._on_closure_failure(closure, error)
        clock.now += 50.0  # TensorFlow waits for it to come back
        seen.append(flying.seconds())

    worker._process_closure(closure)
    assert (lost, seen, worker.put_back) == ([3], [{}], [(closure, error)])
    assert flying.slowest(3) is None
