"""Calls of a task's host that the coordinator makes at once, rather than by a closure."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from ps_dqn.cluster.spec import Task
from ps_dqn.wire import bridge, failures

# The device that each thread asks, and since when.
_under_way: dict[int, tuple[str, float]] = {}


def ask(
    device: str, task: int, method: str, inputs: Sequence[Any], outputs: Sequence[tf.TensorSpec]
) -> list[Any]:
    """Calls a method of a task's host and waits for what it returns.

    Args:
        device: where the task is.
        task: its number: see `bridge`.
        method: of the host.
        inputs: what it gets.
        outputs: what it returns.

    Raises:
        ClusterLostError: the task does not answer.
        WorkerError: its Python failed.
    """
    with _asking(device):
        results = bridge.call(method, task, inputs, outputs)
        values = [result.numpy() for result in results]
        error = bridge.take_error(task).numpy()
    failures.check_error(error)
    return values


def clear_error(device: str, task: int) -> str:
    """Forgets what failed on a task, so that calls go on; its traceback, or no text.

    Raises:
        ClusterLostError: the task does not answer.
    """
    with _asking(device):
        text: bytes = bridge.take_error(task).numpy()
    return text.decode(errors="replace")


def under_way() -> dict[Task, float]:
    """For how long each task that is asked now has been (seconds); may be called on any thread."""
    now, seconds = time.monotonic(), {}
    for device, since in list(_under_way.values()):
        place = tf.DeviceSpec.from_string(device)
        seconds[Task(place.job, place.task)] = now - since
    return seconds


@contextlib.contextmanager
def _asking(device: str) -> Iterator[None]:
    thread = threading.get_ident()
    _under_way[thread] = device, time.monotonic()
    try:
        with tf.device(device):
            yield
    except tf.errors.OpError as lost:
        raise failures.lost(lost) from lost
    finally:
        del _under_way[thread]
