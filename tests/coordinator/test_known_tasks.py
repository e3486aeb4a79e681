"""TensorFlow's own connections to tasks, before it connects anew."""

import pytest
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

from cluster.spec import Task
from ps_dqn.coordinator import known_tasks

SERVER, WORKER = Task("ps", 0), Task("worker", 1)
ADDRESSES = {SERVER: "localhost:1", WORKER: "localhost:2"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that TensorFlow is asked about; it finds each at the third time."""
    names: list[str] = []

    def check_alive(name: str) -> bool:
        names.append(name)
        return names.count(name) == 3

    monkeypatch.setattr(context, "check_alive", check_alive)
    monkeypatch.setattr(known_tasks, "PERIOD", 0.001)
    return names


def test_a_task_with_the_same_context_is_waited_for(monkeypatch, asked):
    monkeypatch.setattr(known_tasks, "_has_context", lambda address, _: address == "localhost:1")
    known_tasks.wait_until_known(ADDRESSES)
    assert asked == ["/job:ps/replica:0/task:0"] * 3


def test_it_is_not_waited_for_without_end(monkeypatch, asked):
    monkeypatch.setattr(known_tasks, "_has_context", lambda *_: True)
    monkeypatch.setattr(known_tasks, "CONNECTION_SECONDS", 0.0)
    known_tasks.wait_until_known(ADDRESSES)
    assert asked == ["/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"]


def test_only_a_server_that_has_the_context_says_so(coordinator):
    number = pywrap_tfe.TFE_GetContextId(context.context()._handle)
    [server] = [job for job in context.get_server_def().cluster.job if job.name == "ps"]
    assert known_tasks._has_context(server.tasks[0], number)
    assert not known_tasks._has_context(server.tasks[0], number + 1)
    assert not known_tasks._has_context("127.0.0.1:1", number)
    assert context.check_alive("/job:ps/replica:0/task:0")
