"""When a snapshot of the parameter servers is taken."""

import dataclasses
import types

import numpy as np
import pytest
from support import reports, states

from ps_dqn.config import Precision
from ps_dqn.coordinator.keeping import snapshots
from ps_dqn.coordinator.keeping.snapshots import Snapshots
from ps_dqn.state import State
from ps_dqn.worker.pushes.kept_pushes import MOST_BYTES


class Store:
    """Parameter servers whose state takes some seconds to get."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now, self.cost, self.pushes = 100.0, 0.0, 0
        self.updates = 0
        clock = types.SimpleNamespace(perf_counter=lambda: self.now)
        monkeypatch.setattr(snapshots, "time", clock)

    def state(self):
        self.now += self.cost
        log = f'{{"id": 1, "clock": {{"pushes": {self.pushes}}}}}'
        return dataclasses.replace(states.state(self.updates), log=log)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    return Store(monkeypatch)


def report(worker: int, num_bytes: int):
    return reports.report(worker=worker, bytes_pushed=num_bytes)


def test_it_is_taken_at_once_and_then_every_period(store):
    kept = Snapshots(5.0)
    assert (kept.is_due, kept.safe, kept.newest) == (True, 0, None)
    store.pushes = 7
    state = kept.take(store, 12.5)
    assert (kept.newest, kept.safe, kept.seconds) == (state, 7, 12.5)
    store.now += 4.9
    assert not kept.is_due
    store.now += 0.2
    assert kept.is_due


def test_it_takes_no_more_than_a_hundredth_of_the_time(store):
    kept = Snapshots(5.0)
    store.cost = 0.3
    kept.take(store, 0.0)
    store.now += 29.0
    kept.heard(report(1, MOST_BYTES))
    assert not kept.is_due
    store.now += 1.1
    assert kept.is_due


def test_it_is_taken_before_workers_let_go_of_what_they_have_pushed(store):
    kept = Snapshots(5.0)
    kept.take(store, 0.0)
    store.now += 0.5
    for worker in (0, 1):
        kept.heard(report(worker, MOST_BYTES // 2))
    assert not kept.is_due, "each has room left"
    kept.heard(report(1, 1))
    assert kept.is_due
    kept.take(store, 1.0)
    assert not kept.is_due


def test_one_is_due_when_a_worker_is_gone_with_what_it_has_kept(store):
    kept = Snapshots(5.0)
    store.cost = 0.3
    kept.take(store, 0.0)
    assert not kept.is_due
    kept.lost()
    assert kept.is_due
    kept.take(store, 1.0)
    assert not kept.is_due


def test_without_a_period_there_are_none(store):
    kept = Snapshots(0.0)
    kept.lost()
    assert not kept.is_due
    state = kept.take(store, 3.0)
    assert isinstance(state, State), "checkpoints are made of it"
    assert (kept.newest, kept.safe) == (None, 0)
    assert np.isfinite(kept.seconds)


class Kept:
    """Checkpoints, the newest of so many updates."""

    def __init__(self, newest_updates: int, error: OSError | None = None):
        self._newest_updates, self._error = newest_updates, error
        self.saved: list[tuple[object, float]] = []

    def save_newer(self, state: State, seconds: float) -> bool:
        if self._error is not None:
            raise self._error
        if state.counters.updates <= self._newest_updates:
            return False
        self.saved.append((state, seconds))
        return True


def test_it_is_saved_where_servers_do_not_answer_any_more(store):
    kept, checkpoints = Snapshots(5.0), Kept(newest_updates=1000)
    assert kept.save(checkpoints) == "", "there is none yet"
    store.updates = 1234
    state = kept.take(store, 12.5)
    text = kept.save(checkpoints)
    assert text == "saved what the parameter servers held at 1,234 updates"
    assert checkpoints.saved == [(state, 12.5)]
    assert kept.save(Kept(newest_updates=1234)) == "", "a checkpoint has it already"
    assert kept.save(Kept(0, OSError("No space left on device"))) == ""


def test_it_has_the_smallest_loss_scale_of_the_workers(store):
    kept, precision = Snapshots(5.0), Precision(precision="float16", initial_loss_scale=64)
    assert kept.first_loss_scale(precision, None) == 64
    assert kept.take(store, 0.0).loss_scale == 64, "as long as nobody has reported"
    for worker, scale in ((0, 256), (1, 8), (2, 32), (1, 16)):
        kept.heard(reports.report(worker=worker, updates=1, loss_scale=scale))
    kept.heard(reports.report(worker=7, loss_scale=8))  # it only acts
    assert kept.take(store, 0.0).loss_scale == 16
    saved = states.state(8)
    found = dataclasses.replace(saved, loss_scale=2)
    assert kept.first_loss_scale(precision, saved, found) == 2, "the first that knows of one"


def test_without_a_loss_scale_it_has_none(store):
    kept = Snapshots(5.0)
    found = dataclasses.replace(states.state(8), loss_scale=2)
    assert kept.first_loss_scale(Precision(precision="bfloat16"), found) == 0
    kept.heard(reports.report(worker=0, loss_scale=0))
    assert kept.take(store, 0.0).loss_scale == 0
