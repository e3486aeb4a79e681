"""What tasks say that they are at, over datagrams of this machine."""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import portpicker
import pytest

from ps_dqn.cluster import pulse
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.pulse import Heard, Listener
from ps_dqn.cluster.spec import Task

WORKER, SERVER = Task("worker", 0), Task("ps", 0)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "PERIOD", 0.02)


@pytest.fixture
def address() -> str:
    # Not one that the system gives to whoever asks for any, like this one's neighbours.
    return f"localhost:{portpicker.pick_unused_port()}"


def heard(listener: Listener, enough: Callable[[dict[Task, Heard]], Any]) -> dict[Task, Heard]:
    """What was heard once it is enough."""
    deadline = time.monotonic() + 60
    with listener.listening():
        while not enough(listener.newest()):
            assert time.monotonic() < deadline, listener.newest()
            threading.Event().wait(0.01)
    return listener.newest()


def test_a_task_says_what_it_is_at_whenever_it_is_asked(address: str) -> None:
    count = iter(range(10**9))
    pulse.serve(address, lambda: {"updates": next(count)})
    listener = Listener({WORKER: address})
    found = heard(listener, lambda all_: WORKER in all_ and all_[WORKER].content["updates"] > 2)
    assert found.keys() == {WORKER}
    assert found[WORKER].at <= time.monotonic()


def test_tasks_are_told_apart_at_ports_that_are_held_for_them() -> None:
    spec = on_this_machine(num_ps=1, num_workers=1)
    pulse.serve(spec.ps[0], lambda: {"version": 3})
    pulse.serve(spec.workers[0], lambda: None)
    listener = Listener({WORKER: spec.workers[0], SERVER: spec.ps[0]})
    found = heard(listener, lambda all_: len(all_) == 2)
    assert found[SERVER].content == {"version": 3}
    assert found[WORKER].content is None


def test_who_does_not_ask_like_us_gets_no_answer(address: str) -> None:
    port = int(address.rpartition(":")[2])
    pulse.serve(address, lambda: {"updates": 1})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.settimeout(60)
        question = (b"ps_dqn pulse " + b"n" * 16).ljust(pulse.SIZE)
        for wrong in (b"", question[:100], b"x" * pulse.SIZE):
            other.sendto(wrong, ("127.0.0.1", port))
        other.sendto(question, ("127.0.0.1", port))
        # They are answered in their order: the first answer is to the only right one.
        assert other.recv(pulse.SIZE) == b"n" * 16 + b'{"updates": 1}'


def test_an_answer_to_nobodys_question_is_not_heard(address: str) -> None:
    port = int(address.rpartition(":")[2])
    listener = Listener({WORKER: address})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar, listener.listening():
        liar.bind(("", port))
        liar.settimeout(60)
        for _ in range(2):
            question, whose = liar.recvfrom(pulse.SIZE)
            liar.sendto(b"n" * 16 + b'{"updates": 9}', whose)
        assert len(question) == pulse.SIZE
    assert listener.newest() == {}


def test_a_port_that_is_taken_leaves_the_task_as_it_is(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pulse._socket() as taken:
        taken.bind(("", int(address.rpartition(":")[2])))
        pulse.serve(address, dict)
    assert "what this task is at is not shown: UDP port" in capsys.readouterr().err
