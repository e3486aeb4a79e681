"""A worker that is told to leave hands in the push that it is at, and waits for nothing else."""

import threading

from support.worker_calls import Open

from ps_dqn.wire.messages import Status
from ps_dqn.worker.roles.departure import LAST_SECONDS, Departure


def leaving(worker) -> threading.Thread:
    thread = threading.Thread(target=worker.host.leave, daemon=True)
    thread.start()
    return thread


def test_a_closure_ends_with_the_push_that_it_is_at(opened: Open) -> None:
    worker = opened()
    worker.pull()
    worker.collect()
    thread = leaving(worker)
    while not worker.host._learning._departure.has_begun:
        thread.join(0.001)
    worker.sample()
    worker.pack(0.5)
    worker.push()
    assert thread.is_alive(), "the closure has not ended"
    pulled = worker.ask()
    assert pulled.status == Status.FINISHED
    plan = worker.plan(pulled)
    assert plan.acting.should_act == 0
    assert worker.within("sample").should_push == 0
    report = worker.report()
    assert (report.pushes, report.env_steps > 0) == (1, True)
    # The next one is how it hears that the report has come.
    worker.begin()
    thread.join(30)
    assert not thread.is_alive()
    assert worker.ask().status == Status.FINISHED


def test_one_that_has_no_closure_leaves_at_once(opened: Open) -> None:
    worker = opened()
    worker.exchange()
    worker.report()
    thread = leaving(worker)
    thread.join(30)
    assert not thread.is_alive()


def test_a_report_that_nobody_answers_is_not_waited_for_for_long() -> None:
    departure = Departure()
    departure.closure_began()
    thread = threading.Thread(target=departure.begin, daemon=True)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    departure.closure_ended()
    thread.join(LAST_SECONDS + 30)
    assert not thread.is_alive()
