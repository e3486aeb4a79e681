"""Optimizers of one flat parameter vector, as pure functions.

The same arithmetic serves TensorFlow's tensors, in the local updates of a worker and in the
compiled step of a parameter server, and NumPy's arrays, in the step of a small shard.

Shapes: P parameters.
"""

import dataclasses
import math
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
        mean, square = self._moments(slots, gradient)
        correction = (1 - self.beta_2**step) ** 0.5 / (1 - self.beta_1**step)
        change = learning_rate * correction * mean / (_sqrt(square) + self.epsilon)
        return parameters - change, [mean, square]

    def _moments(self, slots: Sequence[Array], gradient: Array) -> tuple[Array, Array]:
        mean = self.beta_1 * slots[0] + (1 - self.beta_1) * gradient
        square = self.beta_2 * slots[1] + (1 - self.beta_2) * gradient**2
        return mean, square


@dataclasses.dataclass(frozen=True)
class AdamW(Adam):
    """Loshchilov and Hutter 2019, arXiv:1711.05101: Adam, and all parameters shrink by themselves.

    They do so by `weight_decay` times the step size, whatever their gradients are.
    """

    weight_decay: float = 0.01

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """Adam's step, from parameters that have shrunk."""
        shrunk = parameters * (1.0 - learning_rate * self.weight_decay)
        return super().apply(shrunk, slots, gradient, learning_rate, step)


@dataclasses.dataclass(frozen=True)
class RAdam(Adam):
    """Liu et al. 2020, arXiv:1908.03265: Adam without its first steps along a single gradient.

    Their sizes vary most, as the mean of squares is of few gradients. The step is made smaller by
    how much it varies, and goes along the mean alone until that can be told. ε is where Adam's is.
    """

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """Both moments decay; the step is rectified."""
        mean, square = self._moments(slots, gradient)
        adaptive, plain = self._rectified(step)
        rate = learning_rate / (1 - self.beta_1**step)
        change = rate * (adaptive * mean / (_sqrt(square) + self.epsilon) + plain * mean)
        return parameters - change, [mean, square]

    def _rectified(self, step: Array) -> tuple[Array, Array]:
        """What the step over the root of squares counts, and what that along the mean does."""
        is_tensor = tf.is_tensor(step)
        expm1, root = (tf.math.expm1, tf.sqrt) if is_tensor else (math.expm1, math.sqrt)
        larger = tf.maximum if is_tensor else max
        # 1 - β₂^t, of which little would be left in float32 for small t.
        rest = -expm1(step * math.log(self.beta_2))
        longest = 2 / (1 - self.beta_2) - 1
        # ρ_t, the length of a simple average that varies as much; 4 where it cannot be told.
        length = larger(longest - 2 * step * (1 - rest) / rest, 4.0)
        share = (length - 4) * (length - 2) / length
        rectification = root(share * longest / ((longest - 4) * (longest - 2)))
        is_unknown = length <= 4.0
        plain = tf.cast(is_unknown, tf.float32) if is_tensor else float(is_unknown)
        return rectification * root(rest), plain


@dataclasses.dataclass(frozen=True)
class RMSProp:
    """Tieleman and Hinton 2012, without momentum."""

    epsilon: float
    rho: float
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
    rho: float
    num_slots: int = 2

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """The step is over the root of the decaying variance of gradients."""
        mean = self.rho * slots[0] + (1 - self.rho) * gradient
        square = self.rho * slots[1] + (1 - self.rho) * gradient**2
        # Of gradients that hardly change, rounding makes it less than nothing.
        variance = _positive(square - mean**2)
        change = learning_rate * gradient / _sqrt(variance + self.epsilon)
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
    "adamw": lambda config: AdamW(config.optimizer_epsilon, weight_decay=config.weight_decay),
    "radam": lambda config: RAdam(config.optimizer_epsilon),
    "rmsprop": lambda config: RMSProp(config.optimizer_epsilon, config.rmsprop_decay),
    "rmsprop_centered": lambda config: CenteredRMSProp(
        config.optimizer_epsilon, config.rmsprop_decay
    ),
    "adagrad": lambda config: AdaGrad(config.optimizer_epsilon),
    "sgd": lambda config: Momentum(config.momentum),
}


def build(config: Learning) -> Optimizer:
    """The optimizer of gradients that the configuration names."""
    return OPTIMIZERS[config.optimizer](config)


def _sqrt(array: Array) -> Array:
    return np.sqrt(array) if isinstance(array, np.ndarray) else tf.sqrt(array)


def _positive(array: Array) -> Array:
    return np.maximum(array, 0) if isinstance(array, np.ndarray) else tf.maximum(array, 0.0)
