"""TD targets and losses as pure functions.

Shapes: B transitions, A actions.
"""

import tensorflow as tf


def td_targets(
    rewards: tf.Tensor,  # [B]
    discounts: tf.Tensor,  # [B]
    next_q_target: tf.Tensor,  # [B, A]
    next_q_online: tf.Tensor | None = None,  # [B, A]
) -> tf.Tensor:
    """The value each chosen action is moved towards: R + D · Q_target(s', a*).

    With `next_q_online`, a* is the online network's greedy action and its value the target
    network's: Double DQN (van Hasselt et al. 2016, arXiv:1509.06461). Without, both are the
    target network's: DQN (Mnih et al. 2015).

    Args:
        rewards: n-step returns R = Σ γ^k r_k up to the bootstrap, float32 [B].
        discounts: γ^n at the bootstrap state, 0 where the episode terminated, float32 [B].
        next_q_target: target network's values at the bootstrap state, float32 [B, A].
        next_q_online: online network's values there, float32 [B, A].

    Returns:
        Targets without gradient, float32 [B].
    """
    chooser = next_q_target if next_q_online is None else next_q_online
    greedy = tf.argmax(chooser, axis=-1, output_type=tf.int32)  # [B]
    bootstrap = chosen_values(next_q_target, greedy)  # [B]
    return tf.stop_gradient(rewards + discounts * bootstrap)


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
