"""What becomes of closures that run when another one is given up."""

import gc
import threading
import types
import weakref
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support import processes as real
from tensorflow.python.distribute.coordinator import cluster_coordinator

from ps_dqn.coordinator.scheduling.dispatch import Schedule
from ps_dqn.errors import ClusterLostError


def test_a_loss_that_shows_while_one_is_scheduled_cuts_off_none_that_runs() -> None:
    closures = cluster_coordinator._CoordinatedClosureQueue()
    running = closures._cancellation_mgr  # every closure that was made asks this one

    def schedule(function: Any, args: Any) -> None:
        closures._error = tf.errors.UnavailableError(None, None, "a parameter server is gone")
        closures.put(types.SimpleNamespace(mark_cancelled=lambda: None))

    cluster = types.SimpleNamespace(closure_queue=closures, workers=[])
    coordinator = types.SimpleNamespace(_cluster=cluster, schedule=schedule)
    try:
        with pytest.raises(ClusterLostError, match="a parameter server is gone"):
            Schedule(coordinator, 1, in_order=True).submit("train", tf.identity, [np.int64(1)])
        assert not running.is_cancelled
    finally:
        closures.stop()


class Heavy:
    """What a traced function is to memory."""


@pytest.mark.parametrize("comes_late", [False, True])
def test_closures_of_a_schedule_that_was_closed_are_let_go(comes_late: bool) -> None:
    closures = cluster_coordinator._CoordinatedClosureQueue()
    returns = threading.Event()
    waited = threading.Event()

    def fetch() -> None:
        returns.wait(30)
        waited.set()

    cluster = types.SimpleNamespace(closure_queue=closures, workers=[])
    remote = types.SimpleNamespace(fetch=fetch)
    coordinator = types.SimpleNamespace(_cluster=cluster, schedule=lambda function, args: remote)
    try:
        schedule = Schedule(coordinator, 1, in_order=True)
        function: Any = Heavy()
        held = weakref.ref(function)
        schedule.submit("train", function)
        del function
        if not comes_late:
            returns.set()
            real.until(lambda: not schedule._news.empty(), 30, "the result")

        schedule.close()

        returns.set()
        assert waited.wait(30)
        schedule._waiters.shutdown(wait=True)
        gc.collect()
        assert held() is None
    finally:
        returns.set()
        closures.stop()
