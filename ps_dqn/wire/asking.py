"""Calls of a task's host that the coordinator makes at once, rather than by a closure."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.cluster.spec import Task
from ps_dqn.profiling.recording import Piece
from ps_dqn.profiling.timeline import Record
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


def recorded(device: str, task: int, place: int) -> Piece:
    """What a task has recorded of itself, from a byte on: see `Recording.give`.

    It may take as long as it does: no task is given up for it.

    Raises:
        tf.errors.OpError: the task does not answer.
    """
    outputs = [
        tf.TensorSpec([4], tf.int64),
        tf.TensorSpec([None], tf.uint8),
        tf.TensorSpec([], tf.string),
    ]
    with tf.device(device):
        results = bridge.call(bridge.RECORDED, task, [np.int64(place)], outputs)
        return Piece.from_arrays(*(result.numpy() for result in results))


def clock(device: str, task: int) -> float:
    """What a task's clock says (seconds): see `profiling.timeline`.

    Raises:
        tf.errors.OpError: the task does not answer.
    """
    return _timeline(device, task, False)[0]


def timeline(device: str, task: int) -> Record:
    """When a task did what, by its own clock.

    Raises:
        tf.errors.OpError: the task does not answer.
    """
    return Record.from_json(_timeline(device, task, True)[1])


def _timeline(device: str, task: int, is_whole: bool) -> tuple[float, str]:
    outputs = [tf.TensorSpec([], tf.float64), tf.TensorSpec([], tf.string)]
    with tf.device(device):
        results = bridge.call(bridge.TIMELINE, task, [np.int32(is_whole)], outputs)
        now, text = (result.numpy() for result in results)
    return float(now), text.decode()


def under_way() -> dict[Task, float]:
    """For how long each task that is asked now has been (seconds); may be called on any thread.

    Tasks are as TensorFlow knows them: see `ClusterSpec.task_at`.
    """
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
