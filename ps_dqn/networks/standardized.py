"""What a network knows of its environment beside what it learns: see `moments`."""

import keras
import numpy as np
import tensorflow as tf

from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks import inputs
from ps_dqn.networks.inputs import Given
from ps_dqn.networks.layers import Standardize
from ps_dqn.networks.lstm import LSTM


class Standardized:
    """Means and scales of the quantities in observations, and the scale of rewards.

    Attributes:
        variables: the head of the parameter vector: the mean of each part, then the scale of each,
            then that of rewards; as far as they are wanted.
        num_moments: numbers that are followed for them.
    """

    def __init__(
        self,
        network: Network,
        value: Value,
        environment: EnvironmentSpec,
        lstm: LSTM | None = None,
    ):
        """Has a layer for each part that has quantities; an LSTM's scale of rewards is its own."""
        shapes = environment.quantities_of if network.normalize_observations == "on" else {}
        self._layers = {name: Standardize() for name in shapes}
        for name, shape in shapes.items():
            self._layers[name].build((None, *shape))
        layers = self._layers.values()
        self.variables = [layer.mean for layer in layers] + [layer.scale for layer in layers]
        self.num_moments = environment.num_quantities if shapes else 0
        self._reward_scale: keras.Variable | None = lstm.reward_scale if lstm else None
        if value.normalize_returns == "on":
            if self._reward_scale is None:
                self._reward_scale = keras.Variable(np.float32(1), trainable=False)
            self.variables.append(self._reward_scale)
            self.num_moments += 1

    def __call__(self, observations: Given) -> Given:
        """What `inputs.given` returned, quantities standardized."""
        if not self._layers:
            return observations
        return inputs.bare(
            {
                name: self._layers[name](x) if name in self._layers else x
                for name, x in inputs.by_name(observations).items()
            }
        )

    def rewards(self, rewards: tf.Tensor) -> tf.Tensor:
        """Rewards, or sums of them, as they are learned from."""
        return rewards if self._reward_scale is None else rewards * self._reward_scale
