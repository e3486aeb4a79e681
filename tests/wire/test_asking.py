"""What the coordinator asks tasks at once."""

import threading

import pytest
import tensorflow as tf

from ps_dqn.cluster.spec import Task
from ps_dqn.errors import ClusterLostError
from ps_dqn.wire import asking

DEVICE = "/job:ps/replica:0/task:3"


def test_a_question_is_under_way_until_it_is_answered(monkeypatch):
    asked, answer = threading.Event(), threading.Event()

    def call(*_: object) -> list[tf.Tensor]:
        asked.set()
        assert answer.wait(30)
        raise tf.errors.UnavailableError(None, None, "it is gone")

    monkeypatch.setattr("ps_dqn.wire.bridge.call", call)
    lost = []

    def ask() -> None:
        with pytest.raises(ClusterLostError, match="it is gone"):
            asking.ask(DEVICE, -4, "version", [], [])
        lost.append(True)

    assert asking.under_way() == {}
    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(30)
    [(task, seconds)] = asking.under_way().items()
    assert task == Task("ps", 3)
    assert 0 <= seconds < 30
    answer.set()
    thread.join(30)
    assert lost == [True]
    assert asking.under_way() == {}
