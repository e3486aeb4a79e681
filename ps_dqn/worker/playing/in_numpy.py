"""Several steps of environments for one call of a closure, where NumPy computes what is done.

Shapes: P parameters.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ps_dqn.policy import numpy_policy
from ps_dqn.worker.calls import Acted, Acting, Playing

# For how long a call goes on (seconds): whoever has another closure for the worker waits for it.
AT_ONCE = 0.1
_Shown = TypeVar("_Shown", Acting, Playing)


def steps(
    program: bytes,
    parameters: np.ndarray,
    shown: _Shown,
    step: Callable[[Acted], _Shown],
    goes_on: Callable[[_Shown], bool],
) -> _Shown:
    """Acts greedily while it is to go on, but not for long; what is to be acted on next.

    Args:
        program: of `numpy_steps`.
        parameters: float32 [P].
        shown: what is acted on.
        step: acts; what is to be acted on then.
        goes_on: whether that is to be done now.
    """
    policy, until = numpy_policy.of(program), time.perf_counter() + AT_ONCE
    weights = policy.weights(parameters)
    while goes_on(shown):
        values = policy.values(weights, shown.observations)
        actions = numpy_policy.best(values, shown.masks)
        shown = step(Acted(actions, shown.state, values=values))
        if time.perf_counter() > until:
            break
    return shown
