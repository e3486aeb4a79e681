"""What becomes of closures that run when another one is given up."""

import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.distribute.coordinator import cluster_coordinator

from ps_dqn.coordinator.dispatch import Schedule
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
