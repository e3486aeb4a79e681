"""Optimizers of one flat parameter vector, each in two forms with the same arithmetic.

`apply` is a pure function of tensors, for the local updates of a worker; `apply_fused` is one
TensorFlow kernel that changes variables where they are, for the parameter servers.

Shapes: P parameters (of a shard, for the fused form).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

from ps_dqn.config import Learning


class Optimizer(Protocol):
    """What a worker or a parameter server needs of an optimizer."""

    @property
    def num_slots(self) -> int:
        """Vectors of the parameters' shape it keeps from step to step, zero at first."""

    def apply(
        self,
        parameters: tf.Tensor,
        slots: Sequence[tf.Tensor],
        gradient: tf.Tensor,
        learning_rate: tf.Tensor,
        step: tf.Tensor,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
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

    def apply_fused(
        self,
        parameters: Any,
        slots: Sequence[Any],
        gradient: tf.Tensor,
        learning_rate: tf.Tensor,
        step: tf.Tensor,
    ) -> tf.Operation:
        """The same step on `tf.Variable`s."""


@dataclasses.dataclass(frozen=True)
class Adam:
    """Kingma and Ba 2015, arXiv:1412.6980."""

    epsilon: float
    beta_1: float = 0.9
    beta_2: float = 0.999
    num_slots: int = 2

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """See `Optimizer.apply`."""
        mean = self.beta_1 * slots[0] + (1 - self.beta_1) * gradient
        square = self.beta_2 * slots[1] + (1 - self.beta_2) * gradient**2
        correction = tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        change = learning_rate * correction * mean / (tf.sqrt(square) + self.epsilon)
        return parameters - change, [mean, square]

    def apply_fused(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """See `Optimizer.apply_fused`."""
        return tf.raw_ops.ResourceApplyAdam(
            var=parameters.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=learning_rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
            use_locking=True,
        )


@dataclasses.dataclass(frozen=True)
class RMSProp:
    """Tieleman and Hinton 2012, as in DQN (Mnih et al. 2015), without momentum."""

    epsilon: float
    rho: float = 0.95
    num_slots: int = 2

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """See `Optimizer.apply`."""
        square = self.rho * slots[0] + (1 - self.rho) * gradient**2
        change = learning_rate * gradient / tf.sqrt(square + self.epsilon)
        return parameters - change, [square, change]

    def apply_fused(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """See `Optimizer.apply_fused`."""
        return tf.raw_ops.ResourceApplyRMSProp(
            var=parameters.handle,
            ms=slots[0].handle,
            mom=slots[1].handle,
            lr=learning_rate,
            rho=self.rho,
            momentum=0.0,
            epsilon=self.epsilon,
            grad=gradient,
            use_locking=True,
        )


@dataclasses.dataclass(frozen=True)
class AdaGrad:
    """Duchi et al. 2011, the optimizer of Gorila (Nair et al. 2015, arXiv:1507.04296)."""

    epsilon: float
    num_slots: int = 1

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """See `Optimizer.apply`."""
        square = slots[0] + gradient**2
        change = learning_rate * gradient / (tf.sqrt(square) + self.epsilon)
        return parameters - change, [square]

    def apply_fused(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """See `Optimizer.apply_fused`."""
        return tf.raw_ops.ResourceApplyAdagradV2(
            var=parameters.handle,
            accum=slots[0].handle,
            lr=learning_rate,
            epsilon=self.epsilon,
            grad=gradient,
            use_locking=True,
        )


@dataclasses.dataclass(frozen=True)
class Momentum:
    """Gradient descent with momentum; `nesterov` looks ahead (Sutskever et al. 2013)."""

    momentum: float
    nesterov: bool = False
    num_slots: int = 1

    def apply(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """See `Optimizer.apply`."""
        velocity = self.momentum * slots[0] + gradient
        direction = gradient + self.momentum * velocity if self.nesterov else velocity
        return parameters - learning_rate * direction, [velocity]

    def apply_fused(self, parameters, slots, gradient, learning_rate, step):  # type: ignore[no-untyped-def]
        """See `Optimizer.apply_fused`."""
        return tf.raw_ops.ResourceApplyMomentum(
            var=parameters.handle,
            accum=slots[0].handle,
            lr=learning_rate,
            grad=gradient,
            momentum=self.momentum,
            use_nesterov=self.nesterov,
            use_locking=True,
        )


def build(config: Learning) -> Optimizer:
    """The optimizer of gradients that the configuration names."""
    if config.optimizer == "adam":
        return Adam(config.optimizer_epsilon)
    if config.optimizer == "rmsprop":
        return RMSProp(config.optimizer_epsilon)
    if config.optimizer == "adagrad":
        return AdaGrad(config.optimizer_epsilon)
    return Momentum(config.momentum)
