"""Calls of a task's host that the coordinator makes at once, rather than by a closure."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ps_dqn.wire import bridge, failures


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
    try:
        with tf.device(device):
            results = bridge.call(method, task, inputs, outputs)
            values = [result.numpy() for result in results]
            error = bridge.take_error(task).numpy()
    except tf.errors.OpError as lost:
        raise failures.lost(lost) from lost
    failures.check_error(error)
    return values


def clear_error(device: str, task: int) -> str:
    """Forgets what failed on a task, so that calls go on; its traceback, or no text.

    Raises:
        ClusterLostError: the task does not answer.
    """
    try:
        with tf.device(device):
            text: bytes = bridge.take_error(task).numpy()
    except tf.errors.OpError as lost:
        raise failures.lost(lost) from lost
    return text.decode(errors="replace")
