"""A state that is larger than one message."""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ps_dqn.state import Counters, State
from ps_dqn.wire import bridge, parcels
from ps_dqn.wire.parcels import Parcels

P, V = 10, 7


def state(version: int = 4) -> State:
    vectors = [np.full(P, version + i, np.float32) for i in range(V)]
    counters, moments = Counters(version, 5, 6, 7, 8), np.arange(4, dtype=np.int64)
    slots, waiting, log = tuple(vectors[3:5]), tuple(vectors[5:]), '{"id": 9}'
    return State(*vectors[:3], slots, counters, 2, waiting, moments, log, slots_of="adam")


class Task:
    """What `asking.ask` reaches, in this process: texts become bytes on their way."""

    def __init__(self) -> None:
        self.holds = state()
        self.calls = collections.Counter[str]()
        self._parcels = Parcels(lambda: self.holds, self._go_on)
        self.most = 0  # vectors of a call

    def _go_on(self, with_state: State) -> None:
        self.holds = with_state

    def __call__(self, method: str, inputs: Sequence[Any], outputs: Any) -> list[Any]:
        self.calls[method] += 1
        if method == "restore":
            place, vectors, numbers, text = inputs
            self.most = max(self.most, len(vectors))
            return self._parcels.restore(place, vectors, numbers, text.encode())
        try:
            found, numbers, text, total = self._parcels.checkpoint(*inputs)
        except bridge.Superseded:
            return [np.zeros((0, P), np.float32), np.zeros(0, np.int64), b"", np.int64(0)]
        self.most = max(self.most, len(found))
        return [found, numbers, text.encode(), total]


def same(found: State, wanted: State) -> None:
    for one, other in zip(found.as_arrays(), wanted.as_arrays(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("size", "calls", "most"), [(1, V, 1), (8 * P, 4, 2), (12 * P, 3, 3), (1000, 1, V)]
)
def test_both_ways(size: int, calls: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "PARCEL", size)
    source, other = Task(), Task()
    found = State.from_arrays(*parcels.fetch(source, P))
    same(found, state())
    assert (source.calls["checkpoint"], source.most) == (calls, most)
    other.holds = state(50)
    parcels.give(other, *found.as_arrays())
    same(other.holds, state())
    assert (other.calls["restore"], other.most) == (calls, most)


def test_a_task_that_begins_anew_meanwhile_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "PARCEL", 8 * P)
    tasks = [Task(), *[Task()] * 3]

    def ask(*question: Any) -> list[Any]:
        return tasks.pop(0)(*question)

    vectors, _, _ = parcels.fetch(ask, P)
    assert vectors.shape == (0, P)


def test_what_is_fetched_is_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "PARCEL", 8 * P)
    task = Task()

    def ask(*question: Any) -> list[Any]:
        found = task(*question)
        task.holds = state(task.calls["checkpoint"] * 100)
        return found

    same(State.from_arrays(*parcels.fetch(ask, P)), state())


def test_a_state_that_came_half_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "PARCEL", 8 * P)
    task = Task()

    def lost(method: str, inputs: Sequence[Any], outputs: Any) -> list[Any]:
        if task.calls["restore"] == 2:
            raise ConnectionError
        return task(method, inputs, outputs)

    with pytest.raises(ConnectionError):
        parcels.give(lost, *state(70).as_arrays())
    same(task.holds, state())
    parcels.give(task, *state(80).as_arrays())
    same(task.holds, state(80))


def test_a_task_that_begins_anew_meanwhile_takes_no_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "PARCEL", 8 * P)
    tasks = [Task(), other := Task(), other, other]

    def ask(*question: Any) -> list[Any]:
        return tasks.pop(0)(*question)

    with pytest.raises(bridge.Superseded):
        parcels.give(ask, *state(60).as_arrays())
    same(other.holds, state())
