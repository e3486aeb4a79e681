"""Which returns and fractions the outputs of a network with return distributions stand for.

Shapes: N atoms or quantiles.
"""

import numpy as np
import tensorflow as tf


def support(v_min: float, v_max: float, n: int) -> np.ndarray:
    """The atoms of a categorical distribution: n returns at equal distances (arXiv:1707.06887).

    Args:
        v_min: the lowest return.
        v_max: the highest, above `v_min`.
        n: how many, at least 2.

    Returns:
        float32 [N].
    """
    return np.linspace(v_min, v_max, n, dtype=np.float32)


def middles(v_min: float, v_max: float, n: int) -> np.ndarray:
    """What the bins of a histogram stand for: the middles of n equal parts (arXiv:2403.03950).

    Args:
        v_min: the lower end of the first.
        v_max: the upper end of the last, above `v_min`.
        n: how many.

    Returns:
        float32 [N].
    """
    ends = support(v_min, v_max, n + 1)
    return (ends[:-1] + ends[1:]) / 2


def midpoints(n: int) -> tf.Tensor:
    """The fractions (i + ½) / n of n quantiles (QR-DQN, Dabney et al. 2018, arXiv:1710.10044).

    Args:
        n: how many quantiles.

    Returns:
        float32 [N].
    """
    return (tf.range(n, dtype=tf.float32) + 0.5) / n
