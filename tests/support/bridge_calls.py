"""Closures that call what workers host."""

import tensorflow as tf

from ps_dqn.wire import bridge


def this_worker() -> tf.Tensor:
    return tf.distribute.coordinator.experimental_get_current_worker_index()


def closure(function):
    return tf.function(function, autograph=False).get_concrete_function()


def on_both_workers(coordinator, function) -> dict[int, list]:
    """Runs a closure on each worker at the same time; its results by worker index."""

    def meet_first():
        worker = this_worker()
        [index] = bridge.call("meet", worker, [], [tf.TensorSpec([], tf.int32)])
        with tf.control_dependencies([index]):
            return index, *function(worker)

    meeting = closure(meet_first)
    waiting = [coordinator.schedule(meeting) for _ in range(2)]
    results = [remote.fetch() for remote in waiting]
    return {int(index): list(rest) for index, *rest in results}
