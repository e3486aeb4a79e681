"""A worker's time between two training closures: it waits for its coordinator, or is evaluated.

The toy environment is that of `support/paying_env.py`.
"""

import numpy as np
import pytest
from support import seen_by
from support.worker_calls import Open, Worker

from ps_dqn.worker import tally


class Clock:
    """The time by which workers measure; it stands still unless a test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 1e3
        seen_by.clock(monkeypatch, tally, perf_counter=lambda: self.now)


def test_a_report_tells_of_the_time_since_the_last_one(opened: Open, monkeypatch) -> None:
    worker = opened(max_eval_steps=1)  # has begun its first closure
    clock = Clock(monkeypatch)
    worker.exchange()
    assert worker.report().time_dispatch == 0, "nothing was before the first closure"

    clock.now += 2.0
    worker.begin_evaluation(2)
    clock.now += 5.0
    state = np.zeros((2, worker.config.state_size), np.float32)
    worker.within("evaluate_step", np.ones(2, np.int32), state)
    worker.within("evaluate_end")
    clock.now += 1.0
    worker.begin()
    clock.now += 0.5
    worker.pull()
    got = worker.report()
    assert (got.time_dispatch, got.time_evaluation, got.time_pull) == (3.0, 5.0, 0.5)

    clock.now += 0.25
    worker.begin()
    got = worker.report()
    assert (got.time_dispatch, got.time_evaluation) == (0.25, 0)


def test_a_pull_after_a_closure_that_was_cut_off_is_not_longer(opened: Open, monkeypatch) -> None:
    worker = opened(overlap="on")
    clock = Clock(monkeypatch)
    worker.exchange()
    worker.report()
    worker.begin()
    worker.ask()  # and then a server was not there for a moment
    clock.now += 5.0
    worker.begin()
    clock.now += 0.5
    worker.pull()
    got = worker.report()
    assert (got.time_dispatch, got.time_pull, got.pull_max) == (5.0, 0.5, 0.5)


def test_an_evaluation_before_the_first_closure_is_not_counted() -> None:
    worker = Worker(max_eval_steps=1)
    worker.begin_evaluation(2)
    assert worker.within("evaluate_end").ok == 1
    worker.begin()
    worker.exchange()
    got = worker.report()
    assert (got.time_dispatch, got.time_evaluation) == (0, 0)
    worker.host.close()
