"""A closure that outlives those who wait for it changes nothing once another one has begun."""

import threading

import numpy as np
import pytest
from support.worker_calls import RUN, Open, Worker

from ps_dqn.telemetry.report import Report
from ps_dqn.wire import messages
from ps_dqn.wire.bridge import Superseded
from ps_dqn.wire.messages import PushHeader
from ps_dqn.worker.pushes.fence import Fence

OTHER = RUN + 1


def in_the_middle(worker: Worker) -> int:
    """A closure that has its minibatches and learns from them; its number."""
    worker.pull()
    worker.collect()
    worker.sample()
    return worker.closure


def ticket(worker: Worker) -> int:
    return messages.unpack(PushHeader, worker.packed.header).ticket


@pytest.mark.parametrize("session", [RUN, OTHER])
def test_what_it_has_learned_is_no_push_of_the_next_one(opened: Open, session: int) -> None:
    worker = opened()
    old = in_the_middle(worker)
    first = worker.ticket
    worker.begin(session=session)
    new, worker.closure = worker.closure, old
    with pytest.raises(Superseded):
        worker.pack(99.0)
    worker.closure = new
    worker.pack(0.5)
    assert ticket(worker) == first, "the tickets of the new one are its own"


def test_it_neither_steps_nor_draws_nor_takes_what_comes(opened: Open) -> None:
    worker = opened()
    old = in_the_middle(worker)
    worker.begin()
    new, worker.closure = worker.closure, old
    steps = worker.host._learning.actor.env_steps
    for call in (worker.ask, worker.collect, worker.sample, worker.prepare):
        with pytest.raises(Superseded):
            call()
    assert worker.host._learning.actor.env_steps == steps
    assert worker.report() == Report(*np.zeros(len(Report._fields))), "it has no error to ask for"
    worker.closure = new
    worker.exchange()
    assert worker.report().pushes == 1


def test_an_evaluation_follows_it_and_is_followed(opened: Open) -> None:
    worker = opened()
    old = in_the_middle(worker)
    state = np.zeros((2, worker.config.state_size), np.float32)
    worker.begin_evaluation(2)
    evaluation, worker.closure = worker.closure, old
    with pytest.raises(Superseded):
        worker.pack(0.5)
    worker.begin()
    worker.closure = evaluation
    with pytest.raises(Superseded):
        worker.within("evaluate_step", np.ones(2, np.int32), state)
    played = worker.within("evaluate_end")
    assert (played.ok, played.returns.tolist()) == (1, [])


def test_it_does_not_fail_where_its_run_is_over(opened: Open) -> None:
    # The tasks are in an evaluation of another run, and in no training.
    worker = opened()
    old = in_the_middle(worker)
    worker.begin_evaluation(2, run=OTHER)
    assert worker.host.figures is None
    worker.closure = old
    for call in (worker.collect, worker.sample):
        with pytest.raises(Superseded):
            call()


def test_a_worker_that_is_told_to_leave_does_not_wait_for_it(opened: Open) -> None:
    worker = opened()
    in_the_middle(worker)
    worker.begin_evaluation(2)
    leaves = threading.Thread(target=worker.host._learning.leave)
    leaves.start()
    leaves.join(60)
    assert not leaves.is_alive()


def test_a_step_that_takes_long_does_not_keep_the_coordinator_waiting() -> None:
    fence, goes_on, is_stepping = Fence(), threading.Event(), threading.Event()
    number = fence.begin()

    def slow() -> bool:
        is_stepping.set()
        return goes_on.wait(60)

    stepping = threading.Thread(target=fence.acting(slow), args=(number,))
    stepping.start()
    assert is_stepping.wait(60)
    fence.end()  # returns, though the step goes on
    with pytest.raises(Superseded):
        fence.exchanging(lambda: None)(number)
    goes_on.set()
    stepping.join(60)
