"""What a loss adds for the actions that were not taken: where all that is known was done by others.

Shapes: K transitions, A actions.
"""

from collections.abc import Callable

import tensorflow as tf

from ps_dqn.config import Demonstrations
from ps_dqn.learning.losses import chosen_values
from ps_dqn.learning.passes import Outcomes


def make(options: Demonstrations) -> Callable[[tf.Tensor, Outcomes], tf.Tensor] | None:
    """What the options add to the loss of each transition, [K], from values [K, A]; None: nothing.

    Values of actions that are not allowed are so low that they count for nothing.
    """
    weight, alpha = options.demonstration_loss, options.cql_alpha
    if not weight and not alpha:
        return None

    def penalty(q_values: tf.Tensor, outcomes: Outcomes) -> tf.Tensor:
        total = tf.zeros_like(outcomes.returns)
        if weight:
            margins = large_margin(q_values, outcomes.actions, options.demonstration_margin)
            total += weight * margins * outcomes.demonstrated
        if alpha:
            total += alpha * conservative(q_values, outcomes.actions)
        return total

    return penalty


def large_margin(q_values: tf.Tensor, actions: tf.Tensor, margin: float) -> tf.Tensor:
    """How far the action is from being the best by a margin: max_a (Q(s, a) + l(a)) - Q(s, a_E).

    l is the margin for all actions but the demonstrated one, for which it is 0 (DQfD, Hester et
    al. 2018, arXiv:1704.03732; Piot et al. 2014).

    Args:
        q_values: float32 [K, A].
        actions: those demonstrated, int32 [K].
        margin: in units of the values.

    Returns:
        At least 0, float32 [K].
    """
    others = 1.0 - tf.one_hot(actions, q_values.shape[-1], dtype=q_values.dtype)  # [K, A]
    return tf.reduce_max(q_values + margin * others, axis=-1) - chosen_values(q_values, actions)


def conservative(q_values: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """How much higher the values of all actions are than that of the one in the data, softly.

    ln Σ_a exp Q(s, a) - Q(s, a_data), the regulariser of CQL(H) (Kumar et al. 2020,
    arXiv:2006.04779, eq. 4).

    Args:
        q_values: float32 [K, A].
        actions: those of the data, int32 [K].

    Returns:
        At least 0, float32 [K].
    """
    return tf.reduce_logsumexp(q_values, axis=-1) - chosen_values(q_values, actions)
