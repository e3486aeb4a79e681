"""How much workers explore, and how fast anything else declines over a run."""

import tensorflow as tf


def linear(start: float, end: float, length: float, step: tf.Tensor) -> tf.Tensor:
    """A value that goes from `start` to `end` in a straight line and stays there.

    Args:
        start: the value at step 0.
        end: the value from step `length` on.
        length: steps of the way.
        step: where we are, any numeric dtype, [].

    Returns:
        float32 [].
    """
    fraction = tf.clip_by_value(tf.cast(step, tf.float32) / float(length), 0.0, 1.0)
    return start + fraction * (end - start)


def ladder(epsilon: tf.Tensor, worker: tf.Tensor, num_workers: int) -> tf.Tensor:
    """Worker i of N explores with epsilon^(1 + 7i/(N-1)) (Horgan et al. 2018, arXiv:1803.00933).

    Args:
        epsilon: the schedule's value, float32 [].
        worker: i, counted from 0, [].
        num_workers: N; a single worker uses epsilon itself.

    Returns:
        float32 [].
    """
    exponent = 1.0 + 7.0 * tf.cast(worker, tf.float32) / float(max(num_workers - 1, 1))
    return tf.pow(epsilon, exponent)
