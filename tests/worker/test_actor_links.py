"""A learner's connection to an actor: what its log says, once for each change, and how it waits."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import processes as real
from support.scripted_actor import SPEC, ScriptedActor

from ps_dqn.actor import channel
from ps_dqn.actor.messages import Hello, Layout, Welcome
from ps_dqn.worker.playing import links
from ps_dqn.worker.playing.links import Joined, Link, Lost

SECONDS = 60.0
NOBODY = "127.0.0.1:1"


class Quick(threading.Event):
    """Waits for nothing, and remembers for how long it was told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        return super().wait(0.001)


class Linked:
    """A link, what it has told of, and how often it has tried to connect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.tries, self.waiting, self.actor = 0, Quick(), NOBODY
        self._connect = channel.connect
        monkeypatch.setattr(channel, "connect", self._counted)

    def start(self, actor: str = NOBODY) -> None:
        """In the test itself: what is said between a fixture and its test is not captured."""
        self.actor = actor
        layout = Layout(2, SPEC.observation_shape, SPEC.observation_dtype, 0)
        whose = 0, "actor-0:2222", layout, SPEC.num_actions
        self.link = Link(*whose, lambda times: Hello("", 2, times), self.inbox)
        self.link._closed = self.waiting

    def tried(self, times: int) -> None:
        before = self.tries
        real.until(lambda: self.tries >= before + times, SECONDS, f"{times} tries")

    def hears(self, kind: type) -> None:
        assert isinstance(self.inbox.get(timeout=SECONDS), kind)

    def _counted(self, address: str) -> channel.Channel:
        assert address == "actor-0:2222"
        self.tries += 1
        return self._connect(self.actor)


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Linked]:
    made = Linked(monkeypatch)
    yield made
    made.link.close()


@pytest.fixture
def actor() -> Iterator[ScriptedActor]:
    made = ScriptedActor(2)
    yield made
    made.close()


def said(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What the log has of the actor since the last time; other threads may say other things."""
    lines = capfd.readouterr().err.splitlines()
    return [line for line in lines if line.startswith("the actor at actor-0:2222 ")]


def test_the_log_says_once_that_an_actor_is_not_reached_and_once_that_it_is(
    linked: Linked, actor: ScriptedActor, capfd: pytest.CaptureFixture[str]
) -> None:
    linked.start()
    linked.tried(5)
    refused = "cannot be reached: [Errno 111] Connection refused"
    assert said(capfd) == [f"the actor at actor-0:2222 {refused}"]

    linked.actor = actor.address
    actor.join(0.0)
    linked.hears(Joined)

    assert said(capfd) == ["the actor at actor-0:2222 is reached"]


def test_the_log_says_when_an_actor_goes_and_when_it_comes_back(
    linked: Linked, actor: ScriptedActor, capfd: pytest.CaptureFixture[str]
) -> None:
    linked.start(actor.address)
    actor.join(0.0)
    linked.hears(Joined)
    capfd.readouterr()
    for _ in range(2):
        actor.leave()
        linked.hears(Lost)
        assert actor.join(0.0).seed > 0
        linked.hears(Joined)
        assert said(capfd) == [
            "the actor at actor-0:2222 is not connected any more: the other end has closed the "
            "connection",
            "the actor at actor-0:2222 is there again",
        ]


def test_one_that_hangs_up_again_and_again_is_told_of_once(
    linked: Linked, actor: ScriptedActor, capfd: pytest.CaptureFixture[str]
) -> None:
    linked.start(actor.address)
    for _ in range(4):
        actor.hang_up()
    actor.join(0.0)
    linked.hears(Joined)
    lines = "\n".join(said(capfd))
    assert lines.count("is not connected any more: ") == 1
    assert lines.count("is there again") == 1


def test_one_that_refuses_is_told_of_once(
    linked: Linked, actor: ScriptedActor, capfd: pytest.CaptureFixture[str]
) -> None:
    linked.start(actor.address)
    for _ in range(4):
        actor.join(0.0, Welcome("no licence", [], "", 0, 0))
    assert capfd.readouterr().err.count("cannot do what it is for: no licence\n") == 1


def test_failures_in_a_row_are_ever_further_apart(linked: Linked) -> None:
    linked.start()
    linked.tried(8)
    waits = linked.waiting.waits[:7]
    assert waits == sorted(waits)
    assert waits[-1] == max(linked.waiting.waits) == links.MOST_PAUSE
    # The first, of 0.2 s, may have been before the test looked.
    assert set(np.diff(np.log2(waits[:4])).round(6)) == {1.0}


def test_after_one_that_lasted_the_first_is_soon(
    linked: Linked, actor: ScriptedActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked.start()
    linked.tried(8)
    monkeypatch.setattr(links, "LASTING_SECONDS", 0.0)
    linked.actor = actor.address
    actor.join(0.0)
    linked.hears(Joined)
    linked.waiting.waits.clear()
    actor.leave()
    linked.hears(Lost)
    real.until(lambda: linked.waiting.waits, SECONDS, "the link to wait")
    assert linked.waiting.waits[0] == links.LEAST_PAUSE
