"""When checkpoints are written, and what happens where that fails."""

import math
import os
import pathlib
from typing import Any

import numpy as np
import pytest
from support import seen_by

from ps_dqn.coordinator.keeping import saving
from ps_dqn.coordinator.keeping.saving import Saving
from ps_dqn.coordinator.keeping.snapshots import Snapshots
from ps_dqn.run import checkpoints
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.state import Counters, State

COUNTERS = Counters(1, 64, 512, 3, 64)


class Clock:
    """`time`, by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Store:
    """Parameter servers that hold one vector."""

    def state(self) -> State:
        return State(self.frozen(), self.frozen(), self.frozen(), (), COUNTERS)

    def frozen(self) -> np.ndarray:
        return np.ones(3, np.float32)


class Case:
    """Saving every 60 seconds, on a disk that may be full."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
        self.clock, self.said = Clock(), []
        monkeypatch.setattr(saving, "time", self.clock)
        self.checkpoints = Checkpoints(folder, keep=1)
        for name in ("save_newest", "save_best"):
            monkeypatch.setattr(self.checkpoints, name, self._unless_full(name))
        self.tries, self.full_for = 0, 0
        store: Any = Store()
        self.store = store
        self.connect()

    def connect(self) -> None:
        """Begins, or goes on with another connection."""
        disk = Disk(self.said.append)
        self.saving = Saving(self.store, self.checkpoints, Snapshots(0.0), disk, period=60.0)

    def _unless_full(self, name: str) -> Any:
        save = getattr(self.checkpoints, name)

        def tried(*args: Any) -> Any:
            self.tries += 1
            if self.tries <= self.full_for:
                raise OSError(28, "full")
            return save(*args)

        return tried


@pytest.fixture
def case(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(tmp_path, monkeypatch)


def test_a_newest_checkpoint_now_and_then(case):
    assert case.checkpoints.newest() is None
    assert not case.saving.now_and_then(1.0)
    case.clock.now += 61
    assert case.saving.now_and_then(62.0)
    assert not case.saving.now_and_then(62.5)
    assert case.checkpoints.newest().seconds == 62.0
    assert (case.tries, case.said) == (1, [])


def test_a_try_that_failed_is_made_again_soon(case):
    case.full_for = 2
    case.clock.now += 61
    assert not case.saving.now_and_then(61.0)
    assert not case.saving.now_and_then(61.1)
    assert case.tries == 1
    for _ in range(2):
        case.clock.now += saving.RETRY_SECONDS + 0.1
        saved = case.saving.now_and_then(70.0)
    assert saved
    assert case.tries == 3
    assert [line.partition(" (")[0] for line in case.said] == [
        "checkpoints cannot be written",
        "checkpoints are written again",
    ]


def test_the_best_is_saved_and_so_is_one_as_good(case):
    assert case.saving.best_return == -math.inf
    for mean, best in ((5.0, 5.0), (4.0, 5.0), (5.0, 5.0), (6.0, 6.0)):
        case.saving.best(COUNTERS, mean, 1.0)
        assert case.saving.best_return == case.checkpoints.best().eval_return == best
    assert case.tries == 3


def test_the_best_is_the_network_that_was_evaluated_where_the_store_keeps_none(case):
    case.saving.best(COUNTERS, 5.0, 1.0, np.float32([3, 2, 1]))
    best = case.checkpoints.best()
    assert best.state.average.tolist() == [3, 2, 1]
    assert best.state.counters == COUNTERS


def test_a_best_that_could_not_be_written_is_written_later_and_nothing_worse_instead(case):
    case.full_for = 2
    case.saving.best(COUNTERS, 5.0, 1.0)
    case.saving.best(COUNTERS, 4.0, 2.0)
    case.saving.now_and_then(2.0)
    assert (case.tries, case.checkpoints.best(), case.saving.best_return) == (1, None, 5.0)
    for tries in (2, 3):
        case.clock.now += saving.RETRY_SECONDS + 0.1
        case.saving.now_and_then(3.0)
        assert case.tries == tries
    assert case.checkpoints.best().eval_return == 5.0
    case.clock.now += saving.RETRY_SECONDS + 0.1
    case.saving.now_and_then(4.0)
    assert case.tries == 3


@pytest.mark.parametrize("full_for", [2, 100])
def test_the_end_of_a_run_writes_the_best_that_was_not_or_says_so(case, full_for):
    case.full_for = full_for
    case.saving.best(COUNTERS, 5.0, 1.0)
    case.tries = 1 if full_for == 2 else -1  # the newest has room
    error = case.saving.last(9.0)
    if full_for == 2:
        assert error == ""
        assert case.checkpoints.best().eval_return == 5.0
    else:
        assert case.checkpoints.best() is None
        assert "checkpoint could not be written (full)" in error


@pytest.mark.parametrize(("full_for", "is_saved"), [(0, True), (2, True), (3, False)])
def test_the_last_is_tried_several_times(case, full_for, is_saved):
    case.full_for = full_for
    assert bool(case.saving.last(9.0)) is not is_saved
    assert (case.checkpoints.newest() is not None) is is_saved


def test_what_earlier_sessions_saved_is_known(case, tmp_path):
    case.saving.best(COUNTERS, 5.0, 1.0)
    case.saving.last(9.0)
    store: Any = Store()
    again = Saving(store, Checkpoints(tmp_path, keep=1), Snapshots(0.0), Disk(print), 60.0)
    assert (again.best_return, again.seconds_before) == (5.0, 9.0)


@pytest.mark.parametrize(("age", "left"), [(45, 15), (600, 5)])
def test_connecting_anew_puts_no_checkpoint_off(
    case: Case, age: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = case.checkpoints.save_newest(case.store.state(), 1.0)
    os.utime(path, (5000.0, 5000.0))
    seen_by.clock(monkeypatch, checkpoints, time=lambda: 5000.0 + age)
    case.connect()
    case.clock.now += left - 1
    assert not case.saving.now_and_then(1.0)
    case.clock.now += 1.1
    assert case.saving.now_and_then(1.0)
