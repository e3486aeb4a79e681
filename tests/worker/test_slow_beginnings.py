"""A closure that is still building what it works with when another one follows it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.worker_calls import RUN, Worker

from ps_dqn.wire.bridge import Superseded
from ps_dqn.worker import host as hosting
from ps_dqn.worker.roles import sessions

SECONDS = 60.0


class Slow:
    """What builds, once it is told to go on, and how often it has begun to."""

    def __init__(self, build: Callable[..., Any]):
        self._build = build
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.times = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.times += 1
        self.begun.set()
        assert self.goes_on.wait(SECONDS)
        return self._build(*arguments, **named)


@pytest.mark.parametrize("session", [RUN, RUN + 1], ids=["the same", "another session"])
def test_the_next_closure_goes_on_with_it(session: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(sessions.make)
    monkeypatch.setattr(sessions, "make", slow)
    worker, failures = Worker(), list[BaseException]()

    def first() -> None:
        try:
            worker.begin()
        except BaseException as error:
            failures.append(error)

    old = threading.Thread(target=first)
    old.start()
    assert slow.begun.wait(SECONDS)
    before = worker.host._fence._closure
    table = worker.call("rejoin", *worker.whose(session=session))
    assert not len(table), "it has pushed nothing"
    new = threading.Thread(target=worker.begin, kwargs={"session": session})
    new.start()
    while worker.host._fence._closure < before + 2:  # the new one has begun
        new.join(0.001)
    slow.goes_on.set()
    for each in (old, new):
        each.join(SECONDS)
    assert slow.times == 1
    assert [type(each) for each in failures] == [Superseded]
    assert worker.requests[:, 0].tolist() == [session] * 2
    if session == RUN:  # which these servers are in
        assert worker.pull().acting.should_act
        worker.collect()
        assert worker.sample().should_push
    worker.host.close()


def test_so_does_the_next_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    worker.begin()
    slow = Slow(hosting.Evaluation)
    monkeypatch.setattr(hosting, "Evaluation", slow)

    def first() -> None:
        with pytest.raises(Superseded):
            worker.begin_evaluation(2)

    old = threading.Thread(target=first)
    old.start()
    assert slow.begun.wait(SECONDS)
    before = worker.host._fence._closure
    new = threading.Thread(target=worker.begin_evaluation, args=(2,))
    new.start()
    while worker.host._fence._closure == before:
        new.join(0.001)
    slow.goes_on.set()
    for each in (old, new):
        each.join(SECONDS)
    assert slow.times == 1
    assert worker.host._evaluation is not None
    worker.host.close()
