"""What every kind of batch has to give: the loss of one minibatch after the other.

Shapes: M minibatches of B items each, P parameters.
"""

from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from ps_dqn.networks.network import Parameters
from ps_dqn.seeds import Purpose, derive


class MinibatchLoss(NamedTuple):
    """What one minibatch says."""

    loss: tf.Tensor  # weighted mean, float32 []
    errors: tf.Tensor  # of each item, for its priority, float32 [B]
    q_value: tf.Tensor  # mean of the actions taken, or of the states, float32 []
    entropy: tf.Tensor | float = 0.0  # mean of a policy's, float32 [] (nats)


class Source(Protocol):
    """One kind of batch."""

    def minibatch(self, batch: Any, index: tf.Tensor) -> Any:
        """One minibatch of a batch."""

    def prepare(self, parameters: Parameters, batch: Any, seed: tf.Tensor) -> Any:
        """What the bootstrapping network says of all minibatches, leading dimension M."""

    def loss(
        self,
        parameters: Parameters,
        minibatch: Any,
        prepared: Any,
        seed: tf.Tensor,
        epsilon: tf.Tensor,
    ) -> MinibatchLoss:
        """The loss of one minibatch.

        Args:
            parameters: the online network's, float32 [P].
            minibatch: what `minibatch` returned.
            prepared: its part of what `prepare` returned.
            seed: of noise and random quantiles, int32 [2].
            epsilon: of the policy that acts, float32 [].
        """


def of_encoder(seed: tf.Tensor, network: Purpose) -> tf.Tensor:
    """The seed of a network's encoder, whose head has `derive(seed, network)`."""
    return derive(derive(seed, network), Purpose.ENCODER)


def merge(array: tf.Tensor) -> tf.Tensor:
    """The first two dimensions as one."""
    shape = array.shape
    return tf.reshape(array, [shape[0] * shape[1], *shape[2:]])


def split(array: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """The first dimension as several."""
    return tf.reshape(array, [*shape, *array.shape[1:]])
