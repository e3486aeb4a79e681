"""Greedy actions of a flat parameter vector in NumPy, for dense layers over one array.

They are so small that to ask TensorFlow for each step takes longer than to compute it: whoever has
the environments in Python computes the actions there too, and goes on without it.

Shapes: P parameters, E observations, A actions.
"""

import functools
import json

import numpy as np

from ps_dqn.policy import numpy_network

Weights = dict[str, dict[str, np.ndarray]]


class NumPyPolicy:
    """What a program of `numpy_steps` says."""

    def __init__(self, text: str):
        """Reads a program, not an empty one."""
        said = json.loads(text)
        self._first, self._steps = said["first"], said["steps"]
        self._places = said["weights"]
        self._constants = {
            name: np.asarray(array, np.float32) for name, array in said["constants"].items()
        }

    def weights(self, parameters: np.ndarray) -> Weights:
        """Of parameters float32 [P], of which they are parts."""
        arrays = dict(self._constants)
        for name, (start, *shape) in self._places.items():
            size = int(np.prod(shape))
            arrays[name] = parameters[start : start + size].reshape(shape)
        return numpy_network.by_layer(arrays)

    def values(self, weights: Weights, observations: np.ndarray) -> np.ndarray:
        """The values of all actions, float32 [E, A], of observations [E, …]."""
        with np.errstate(all="ignore"):  # of parameters that have left all bounds
            return numpy_network.computed(self._steps, weights, self._first, observations)


def best(values: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """The best actions, int32 [E].

    Args:
        values: of all, [E, A].
        masks: which are allowed, one at least, bool [E, A]; [E, 0]: all are.
    """
    if masks.shape[1]:
        values = np.where(masks, values, -np.inf)
    return values.argmax(axis=1).astype(np.int32)


@functools.lru_cache(maxsize=8)
def of(text: bytes) -> NumPyPolicy:
    """The policy of a program, as it comes with a call."""
    return NumPyPolicy(text.decode())
