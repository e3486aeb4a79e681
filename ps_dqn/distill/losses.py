"""What a student makes small: the three losses of Rusu et al. 2016, arXiv:1511.06295, section 3.

Shapes: B observations, A actions.
"""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from ps_dqn.networks.heads import only_allowed

# Of the student's values and the teacher's, float32 [B, A], and of which actions are allowed, bool
# [B, A], or [B, 0] where all are; of each observation, float32 [B].
Loss: TypeAlias = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def of(name: str, temperature: float) -> Loss:
    """The loss of a name.

    Args:
        name: kl, mse or nll.
        temperature: of kl, τ.
    """
    if name == "kl":
        return lambda student, teacher, masks: kl(student, teacher, masks, temperature)
    return {"mse": mse, "nll": nll}[name]


def kl(student: tf.Tensor, teacher: tf.Tensor, masks: tf.Tensor, temperature: float) -> tf.Tensor:
    """Σ p ln(p / s), of p = softmax(teacher / τ) and s = softmax(student)."""
    log_p = tf.nn.log_softmax(only_allowed(teacher, masks) / temperature)
    log_s = tf.nn.log_softmax(only_allowed(student, masks))
    return tf.reduce_sum(tf.exp(log_p) * (log_p - log_s), -1)


def mse(student: tf.Tensor, teacher: tf.Tensor, masks: tf.Tensor) -> tf.Tensor:
    """The mean over the actions that are allowed of (teacher - student)²."""
    squares = tf.square(teacher - student)
    if not masks.shape[-1]:
        return tf.reduce_mean(squares, -1)
    allowed = tf.cast(masks, tf.float32)
    return tf.reduce_sum(allowed * squares, -1) / tf.reduce_sum(allowed, -1)


def nll(student: tf.Tensor, teacher: tf.Tensor, masks: tf.Tensor) -> tf.Tensor:
    """-ln softmax(student) of the teacher's best action."""
    best = tf.argmax(only_allowed(teacher, masks), -1)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(best, only_allowed(student, masks))
