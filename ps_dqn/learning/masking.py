"""Learning where some parameters are zero and are to stay so.

Shapes: P parameters.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.config import Pruning

# The mask where all are learned.
NONE = np.zeros(0, np.float32)


def size(options: Pruning, num_parameters: int) -> int:
    """Numbers of the mask: P, or 0 where there is none."""
    return num_parameters if options.is_on else 0


def growth_size(options: Pruning, num_parameters: int) -> int:
    """Numbers of the gradient that says where weights are to grow: P, or 0."""
    return num_parameters if options.grows else 0


def masked(vectors: Any, mask: Any) -> Any:
    """Vectors [..., P] with zeros where the mask [P] has them; themselves where it is [0]."""
    return vectors * mask if mask.shape[0] else vectors


def growth(options: Pruning, gradient: tf.Tensor) -> tf.Tensor:
    """What to remember of a gradient [P] of all parameters: it, or nothing of it, [0]."""
    return gradient if options.grows else gradient[:0]
