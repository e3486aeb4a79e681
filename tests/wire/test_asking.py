"""What the coordinator asks tasks at once."""

import threading

import pytest
import tensorflow as tf

from ps_dqn.cluster.spec import Task
from ps_dqn.errors import ClusterLostError
from ps_dqn.wire import asking

DEVICE, TASK = "/job:ps/replica:0/task:3", Task("ps", 3)


def test_a_question_is_under_way_until_it_is_answered(monkeypatch):
    asked, answer = threading.Event(), threading.Event()

    def call(*_: object) -> list[tf.Tensor]:
        asked.set()
        assert answer.wait(60)
        raise tf.errors.UnavailableError(None, None, "it is gone")

    monkeypatch.setattr("ps_dqn.wire.bridge.call", call)
    lost = []

    def ask() -> None:
        with pytest.raises(ClusterLostError, match="it is gone"):
            asking.ask(DEVICE, -4, "version", [], [])
        lost.append(True)

    # Other threads of this process may ask other tasks.
    assert TASK not in asking.under_way()
    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(60)
    assert 0 <= asking.under_way()[TASK] < 60
    answer.set()
    thread.join(60)
    assert lost == [True]
    assert TASK not in asking.under_way()
