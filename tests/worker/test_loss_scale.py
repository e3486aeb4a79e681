"""A worker's loss scale from push to push, and what becomes of updates that were skipped."""

import math

import numpy as np
import pytest
from support.worker_calls import RUN, Worker

from ps_dqn.config import Precision
from ps_dqn.wire.messages import Kind
from ps_dqn.worker.pushes.loss_scale import LossScale
from ps_dqn.worker.tally import Tally

UPDATES = 4


@pytest.fixture
def worker():
    made = Worker(precision="float16", local_updates=UPDATES)
    made.loss_scale = 64
    made.begin()
    yield made
    made.host.close()


def learn(worker: Worker, scale: float, in_a_row: float, skipped: float, vector: float = 0.5):
    """One push; what became of it, and the loss scale that it was learned with."""
    pulled = worker.pull()
    if pulled.acting.should_act:
        worker.collect()
    worker.sample()
    worker.pack(vector, slots=7.0, scale=(scale, in_a_row, skipped))
    return worker.push().kind, pulled.loss_scale.tolist()


def optimizer(worker: Worker):
    return worker.host._learning._optimizer


def test_it_goes_from_push_to_push_and_counts_what_was_skipped(worker: Worker) -> None:
    assert learn(worker, 128, 3, 1) == (Kind.APPLIED, [64, 0, 0])
    assert optimizer(worker).steps == UPDATES - 1, "one of them made no step"
    assert learn(worker, 32, 0, 2) == (Kind.APPLIED, [128, 3, 0])
    assert optimizer(worker).steps == 2 * UPDATES - 3
    report = worker.report()
    assert (report.skipped_updates, report.updates, report.loss_scale) == (3, 2 * UPDATES, 32)
    assert (report.pushes, report.withheld) == (2, 0)
    assert report.measured == 2 * UPDATES - 3, "losses are sums over these"
    worker.loss_scale = 2  # a later session of the run says another: this worker has its own
    worker.begin()
    assert learn(worker, 32, 1, 0) == (Kind.APPLIED, [32, 0, 0])


def test_a_push_of_which_nothing_is_left_is_withheld(worker: Worker) -> None:
    learn(worker, 64, 4, 0)
    before = worker.online()
    kind, _ = learn(worker, 4, 0, UPDATES, vector=0.0)
    assert kind == Kind.WITHHELD
    np.testing.assert_array_equal(worker.online(), before)
    assert optimizer(worker).steps == UPDATES
    assert learn(worker, 4, 1, 0)[1] == [4, 0, 0], "but its scale is kept"
    report = worker.report()
    assert (report.withheld_overflows, report.withheld_not_finite, report.pushes) == (1, 0, 2)
    assert (report.skipped_updates, report.updates) == (UPDATES, 3 * UPDATES)


def test_a_gradient_that_overflowed_does_not_reach_the_servers() -> None:
    worker = Worker(precision="float16", local_updates=1)
    worker.begin()
    before = worker.online()
    kind, _ = learn(worker, 32, 0, 1, vector=0.0)
    assert kind == Kind.WITHHELD
    np.testing.assert_array_equal(worker.online(), before)
    worker.host.close()


def test_who_only_acts_has_one_and_says_none() -> None:
    scale = LossScale(Precision(precision="float16"), 64, Tally())
    assert scale.numbers.tolist() == [64, 0, 0]

    assert math.isnan(scale.value), "it would be that of the beginning for ever"


def test_other_numbers_have_none() -> None:
    worker = Worker(precision="bfloat16", local_updates=UPDATES)
    worker.begin(RUN)
    assert worker.pull().loss_scale.shape == (0,)
    assert math.isnan(worker.report().loss_scale)
    worker.host.close()
