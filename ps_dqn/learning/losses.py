"""Losses of TD errors, and what is done to their gradient, as pure functions.

Shapes: B transitions, A actions, P parameters.
"""

import math
from collections.abc import Callable, Mapping

import tensorflow as tf

from ps_dqn.config import Value


def chosen_values(q_values: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Q(s, a) of one action for each state.

    A product with a one-hot row: its gradient is dense, which XLA runs much faster on CPUs than
    the scatter that a gather's gradient is.

    Args:
        q_values: float32 [B, A].
        actions: int32 [B].

    Returns:
        float32 [B].
    """
    one_hot = tf.one_hot(actions, q_values.shape[-1], dtype=q_values.dtype)  # [B, A]
    return tf.reduce_sum(q_values * one_hot, axis=-1)


def huber(errors: tf.Tensor, delta: float) -> tf.Tensor:
    """Squared near zero and linear beyond `delta`: e²/2, then δ(|e| - δ/2) (Huber 1964).

    Args:
        errors: any shape.
        delta: where the two meet.

    Returns:
        Losses of the same shape.
    """
    size = tf.abs(errors)
    quadratic = tf.minimum(size, delta)
    return 0.5 * quadratic**2 + delta * (size - quadratic)


def squared(errors: tf.Tensor) -> tf.Tensor:
    """e²/2, so that its gradient is the error, as the Huber loss's is near zero.

    Args:
        errors: any shape.

    Returns:
        Losses of the same shape.
    """
    return 0.5 * errors**2


def log_cosh(errors: tf.Tensor) -> tf.Tensor:
    """Near e²/2 for small errors and |e| - ln 2 for large ones, smooth throughout: ln cosh e.

    Saleh and Saleh 2022, arXiv:2208.04564; written as |e| + softplus(-2|e|) - ln 2, in which
    nothing overflows. Its gradient is tanh e.

    Args:
        errors: any shape.

    Returns:
        Losses of the same shape.
    """
    size = tf.abs(errors)
    return size + tf.math.softplus(-2.0 * size) - math.log(2.0)


# What `--loss` may be.
LOSSES: Mapping[str, Callable[[tf.Tensor, Value], tf.Tensor]] = {
    "huber": lambda errors, value: huber(errors, value.huber_delta),
    "squared": lambda errors, value: squared(errors),
    "log_cosh": lambda errors, value: log_cosh(errors),
}


def regression(errors: tf.Tensor, value: Value) -> tf.Tensor:
    """The configured loss of TD errors, of any shape; losses of the same shape."""
    return LOSSES[value.loss](errors, value)


def clip_by_norm(gradient: tf.Tensor, max_norm: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Scales a gradient down to a largest Euclidean norm; 0 leaves it as it is.

    Args:
        gradient: the whole flat gradient, float32 [P].
        max_norm: the largest norm, or 0.

    Returns:
        The gradient, float32 [P], and its norm before, float32 [].
    """
    norm = tf.sqrt(tf.reduce_sum(gradient**2))
    if not max_norm:
        return gradient, norm
    return gradient * (max_norm / tf.maximum(norm, max_norm)), norm
