"""What a worker learned for one push: the update loop makes it, the worker packs it."""

from typing import Any, NamedTuple

import numpy as np


class Learned(NamedTuple):
    """What the update loop gives back.

    Shapes: M minibatches (= local updates) of B items each, P parameters, S optimizer slots.
    """

    vector: Any  # gradient (one update) or change of the parameters (more), float32 [P]
    slots: Any  # float32 [S, P]
    td_loss: Any  # sums over updates, float32 []
    q_values: Any
    grad_norm: Any
    errors: Any  # of each item drawn, for its priority, float32 [M, B]
    entropy: Any = 0.0  # another sum over updates, of a policy's, float32 [] (nats)
    # `loss_scaling.Scale` after the updates, float32 [3]; [0] without one.
    loss_scale: Any = np.zeros(0, np.float32)
    # Sum of the gradients of all parameters, those that are masked too, [P]; [0] if nothing grows.
    growth: Any = np.zeros(0, np.float32)
