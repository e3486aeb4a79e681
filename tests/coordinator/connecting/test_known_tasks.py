"""TensorFlow's own connections to tasks, before it connects anew."""

import threading

import pytest
from support import processes as real
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

from ps_dqn.cluster.spec import Task
from ps_dqn.coordinator.connecting import known_tasks, runtime

SERVER, WORKER = Task("ps", 0), Task("worker", 1)
ADDRESSES = {SERVER: "localhost:1", WORKER: "localhost:2"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks that TensorFlow is asked about; it finds each at the third time."""
    tasks: list[Task] = []

    def is_connected(task: Task) -> bool:
        tasks.append(task)
        return tasks.count(task) == 3

    monkeypatch.setattr(runtime, "is_alive", is_connected)
    monkeypatch.setattr(known_tasks, "PERIOD", 0.001)
    monkeypatch.setattr(known_tasks, "CONNECTION_SECONDS", 60.0)
    return tasks


def test_a_task_with_the_same_context_is_waited_for(monkeypatch, asked):
    monkeypatch.setattr(known_tasks, "_has_context", lambda address, _: address == "localhost:1")
    known_tasks.wait_until_known(ADDRESSES)
    assert asked == [SERVER] * 3


def test_it_is_not_waited_for_without_end(monkeypatch, asked):
    monkeypatch.setattr(known_tasks, "_has_context", lambda *_: True)
    monkeypatch.setattr(known_tasks, "CONNECTION_SECONDS", 0.0)
    known_tasks.wait_until_known(ADDRESSES)
    real.until(lambda: asked == [SERVER, WORKER], 60, "it to ask each once")


def test_one_that_does_not_answer_is_left_behind(monkeypatch):
    monkeypatch.setattr(known_tasks, "_has_context", lambda *_: True)
    monkeypatch.setattr(known_tasks, "CONNECTION_SECONDS", 0.01)
    answers = threading.Event()
    monkeypatch.setattr(runtime, "is_alive", lambda _: answers.wait(60))
    known_tasks.wait_until_known(ADDRESSES)
    answers.set()


def test_only_a_server_that_has_the_context_says_so(coordinator, monkeypatch):
    monkeypatch.setattr(known_tasks, "ANSWER_SECONDS", 60.0)  # on a machine under load, too
    number = pywrap_tfe.TFE_GetContextId(context.context()._handle)
    [server] = [job for job in context.get_server_def().cluster.job if job.name == "ps"]
    assert known_tasks._has_context(server.tasks[0], number)
    assert not known_tasks._has_context(server.tasks[0], number + 1)
    assert not known_tasks._has_context("127.0.0.1:1", number)
    assert runtime.is_alive(SERVER)
    assert not runtime.is_alive(Task("ps", 99))
