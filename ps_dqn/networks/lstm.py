"""The layer of recurrent networks.

Shapes: B rows, F features, A actions, U units, S numbers of recurrent state.
"""

from typing import Any

import keras
import tensorflow as tf

from ps_dqn.networks import precision


@keras.saving.register_keras_serializable("ps_dqn")
class LSTM(precision.Unrounded):
    """One step of a long short-term memory (Hochreiter and Schmidhuber 1997), forget bias 1.

    It reads features, the action before them and its reward, as R2D2's does. Its memory is the
    output h and the cell c side by side, [B, 2U]; its state is the memory and the last step,
    [B, 2U + 2]: the action plus one, 0 where there was none, and the reward. `project` is the part
    of a step that does not need the memory, so it can be done for all steps at once.

    Args:
        units: U.
        num_actions: A.
        seed: of the weights.
        scales_rewards: whether it multiplies rewards by `reward_scale`, which is not learned by
            gradients: large ones would leave its gates open or shut, whatever else it reads.
    """

    def __init__(
        self, units: int, num_actions: int, seed: int, scales_rewards: bool = False, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.units = units
        self.num_actions = num_actions
        self.seed = seed
        self.reward_scale: keras.Variable | None = None
        if scales_rewards:
            self.reward_scale = self.add_weight((), "ones", trainable=False, name="reward_scale")

    @property
    def state_size(self) -> int:
        """Numbers of its state."""
        return 2 * self.units + 2

    def build(self, features_shape: tuple[int, ...]) -> None:
        """Makes the weights; gates in the order input, forget, memory, output."""
        shape = (features_shape[-1] + self.num_actions + 1, 4 * self.units)
        orthogonal = keras.initializers.Orthogonal(seed=self.seed)

        def remember(shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
            return tf.repeat(tf.constant([0.0, 1.0, 0.0, 0.0], dtype), self.units)

        glorot = keras.initializers.GlorotUniform(self.seed)
        self.kernel = self.add_weight(shape, glorot, name="kernel")
        self.recurrent_kernel = self.add_weight(
            (self.units, shape[1]), orthogonal, name="recurrent_kernel"
        )
        self.bias = self.add_weight(shape[1:], remember, name="bias")

    def project(self, features: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
        """From [B, F] and steps before [B, 2] to what both add to the gates, [B, 4U]."""
        actions = tf.one_hot(tf.cast(before[:, 0], tf.int32) - 1, self.num_actions)
        rewards = before[:, 1:]
        if self.reward_scale is not None:
            rewards *= tf.stop_gradient(self.reward_scale)
        features = tf.cast(features, tf.float32)
        inputs = tf.concat([features, actions, rewards], axis=-1)
        return precision.product(inputs, self.kernel, self.compute_dtype) + self.bias

    def advance(self, projected: tf.Tensor, memory: tf.Tensor) -> tf.Tensor:
        """From `project`'s result and a memory to the next memory, [B, 2U]."""
        hidden, cell = tf.split(memory, 2, axis=-1)
        recurrent = precision.product(hidden, self.recurrent_kernel, self.compute_dtype)
        gates = projected + recurrent  # [B, 4U]
        enter, keep, new, leave = tf.split(gates, 4, axis=-1)
        cell = tf.sigmoid(keep) * cell + tf.sigmoid(enter) * tf.tanh(new)
        return tf.concat([tf.sigmoid(leave) * tf.tanh(cell), cell], axis=-1)

    def call(self, features: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """From features [B, F] and state [B, S] to the output [B, U] and the next state [B, S].

        Its last two numbers are 0: whoever acts writes there what was done and what it paid.
        """
        memory, before = tf.split(state, [2 * self.units, 2], axis=-1)
        memory = self.advance(self.project(features, before), memory)
        return memory[:, : self.units], tf.concat([memory, tf.zeros_like(before)], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """What Keras writes into a file."""
        return super().get_config() | {
            "units": self.units,
            "num_actions": self.num_actions,
            "seed": self.seed,
            "scales_rewards": self.reward_scale is not None,
        }
