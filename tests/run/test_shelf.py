"""A snapshot that outlives the process that took it."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ps_dqn.run.shelf import Shelf
from ps_dqn.state import Counters, State

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shares memory by memfd")


def state(updates: int, size: int) -> State:
    vectors = [np.full(size, updates + i, np.float32) for i in range(6)]
    counters = Counters(updates // 2, updates, 8 * updates, 3, updates)
    moments = np.arange(4, dtype=np.int64)
    slots, waiting = tuple(vectors[3:5]), (vectors[5],)
    log = f'{{"id": {updates}}}'
    more = {"loss_scale": 2**updates, "slots_of": "adam"}
    return State(*vectors[:3], slots, counters, 2, waiting, moments, log, **more)


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    made = Shelf()
    yield made
    made.close()


def in_a_fork(body: Callable[[], None]) -> int:
    process = multiprocessing.get_context("fork").Process(target=body)
    process.start()
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


def same(found: State, wanted: State) -> None:
    assert found.loss_scale == wanted.loss_scale
    assert (found.slots_of, found.log) == (wanted.slots_of, wanted.log)
    for one, other in zip(found.as_arrays(), wanted.as_arrays(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_it_has_what_a_fork_has_put_last(shelf: Shelf) -> None:
    assert shelf.get() is None

    def put() -> None:
        for updates, size in ((4, 100), (6, 1000), (8, 10)):
            shelf.put(state(updates, size), 1.5 * updates)

    assert in_a_fork(put) == 0
    found = shelf.get()
    assert found is not None
    assert found.seconds == 12.0
    same(found.state, state(8, 10))


def test_the_one_before_stays_where_who_puts_it_is_killed(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put(state(4, 100), 4.0)
    shelf.put(state(6, 100), 6.0)

    def put_half() -> None:
        def write_half(file: object, **arrays: np.ndarray) -> None:
            os.write(shelf._places[0], b"half")
            os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(np, "savez", write_half)
        shelf.put(state(8, 100), 8.0)

    assert in_a_fork(put_half) == -signal.SIGKILL
    found = shelf.get()
    assert found is not None
    same(found.state, state(6, 100))
    shelf.put(state(10, 50), 10.0)
    found = shelf.get()
    assert found is not None
    same(found.state, state(10, 50))
