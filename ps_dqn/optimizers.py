"""Optimizers of one flat parameter vector, as pure functions.

The same arithmetic serves TensorFlow's tensors, in the local updates of a worker and in the
compiled step of a parameter server, and NumPy's arrays, in the step of a small shard.

Shapes: P parameters.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from ps_dqn.config import Learning

Array = Any  # tf.Tensor or np.ndarray; scalars are float32 [] tensors or Python floats


class Optimizer(Protocol):
    """What a worker or a parameter server needs of an optimizer."""

    @property
    def num_slots(self) -> int:
        """Vectors of the parameters' shape it keeps from step to step, zero at first."""

    def apply(
        self,
        parameters: Array,
        slots: Sequence[Array],
        gradient: Array,
        learning_rate: Array,
        step: Array,
    ) -> tuple[Array, list[Array]]:
        """One step.

        Args:
            parameters: float32 [P].
            slots: `num_slots` times float32 [P].
            gradient: float32 [P].
            learning_rate: float32 [].
            step: how many steps this one makes, counted from 1, float32 [].

        Returns:
            The parameters and slots after it.
        """


@dataclasses.dataclass(frozen=True)
class Adam:
    """Kingma and Ba 2015, arXiv:1412.6980, in the form at the end of its section 2.

    There ε is added to the root before the correction (the paper's ε̂), as TensorFlow does, so it
    counts for more in the first steps than the ε of Algorithm 1.
    """

    epsilon: float
    beta_1: float = 0.9
    beta_2: float = 0.999
    num_slots: int = 2

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """Both moments decay; the step is corrected for their start at zero."""
        mean = self.beta_1 * slots[0] + (1 - self.beta_1) * gradient
        square = self.beta_2 * slots[1] + (1 - self.beta_2) * gradient**2
        correction = (1 - self.beta_2**step) ** 0.5 / (1 - self.beta_1**step)
        change = learning_rate * correction * mean / (_sqrt(square) + self.epsilon)
        return parameters - change, [mean, square]


@dataclasses.dataclass(frozen=True)
class RMSProp:
    """Tieleman and Hinton 2012, without momentum."""

    epsilon: float
    rho: float = 0.95
    num_slots: int = 1

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """The step is over the root of the decaying mean of squares."""
        square = self.rho * slots[0] + (1 - self.rho) * gradient**2
        change = learning_rate * gradient / _sqrt(square + self.epsilon)
        return parameters - change, [square]


@dataclasses.dataclass(frozen=True)
class CenteredRMSProp:
    """Graves 2013, arXiv:1308.0850, eq. 38-41, as DQN has it (Mnih et al. 2015), without momentum.

    DQN's `gradient momentum` is the decay of the mean of gradients here; its ε is 0.01.
    """

    epsilon: float
    rho: float = 0.95
    num_slots: int = 2

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """The step is over the root of the decaying variance of gradients."""
        mean = self.rho * slots[0] + (1 - self.rho) * gradient
        square = self.rho * slots[1] + (1 - self.rho) * gradient**2
        change = learning_rate * gradient / _sqrt(square - mean**2 + self.epsilon)
        return parameters - change, [mean, square]


@dataclasses.dataclass(frozen=True)
class AdaGrad:
    """Duchi et al. 2011, the optimizer of Gorila (Nair et al. 2015, arXiv:1507.04296)."""

    epsilon: float
    num_slots: int = 1

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """The step is over the root of the sum of all squares."""
        square = slots[0] + gradient**2
        change = learning_rate * gradient / (_sqrt(square) + self.epsilon)
        return parameters - change, [square]


@dataclasses.dataclass(frozen=True)
class Momentum:
    """Gradient descent with momentum; `nesterov` looks ahead (Sutskever et al. 2013)."""

    momentum: float
    nesterov: bool = False
    num_slots: int = 1

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """The step is along the velocity, or with `nesterov` from where that leads."""
        velocity = self.momentum * slots[0] + gradient
        direction = gradient + self.momentum * velocity if self.nesterov else velocity
        return parameters - learning_rate * direction, [velocity]


# By `--optimizer`.
OPTIMIZERS: dict[str, Callable[[Learning], Optimizer]] = {
    "adam": lambda config: Adam(config.optimizer_epsilon),
    "rmsprop": lambda config: RMSProp(config.optimizer_epsilon),
    "rmsprop_centered": lambda config: CenteredRMSProp(config.optimizer_epsilon),
    "adagrad": lambda config: AdaGrad(config.optimizer_epsilon),
    "sgd": lambda config: Momentum(config.momentum),
}


def build(config: Learning) -> Optimizer:
    """The optimizer of gradients that the configuration names."""
    return OPTIMIZERS[config.optimizer](config)


def _sqrt(array: Array) -> Array:
    return np.sqrt(array) if isinstance(array, np.ndarray) else tf.sqrt(array)
