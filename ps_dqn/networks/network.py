"""Q-networks of Keras layers, used as pure functions of one flat parameter vector.

An encoder (torso and all hidden layers but the last), an LSTM where the network is recurrent, and
a head (the last hidden layer and the outputs).

Shapes: B rows, L steps, K = B or B·L rows, E environments, F features, S numbers of recurrent
state, A actions, N atoms or quantiles, P parameters.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from ps_dqn.config import Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks import choosing, heads, inputs, quantized, segments, unrolling
from ps_dqn.networks.convolutions import PatchConvolution
from ps_dqn.networks.layers import run
from ps_dqn.networks.lstm import LSTM
from ps_dqn.networks.standardized import Standardized

# A parameter vector [P], or its weights as `QNetwork.cut` returns them.
Parameters: TypeAlias = tf.Tensor | tuple[tf.Tensor, ...]


class QNetwork:
    """A Q-network as pure functions of one flat float32 parameter vector [P].

    `parameters` are everywhere the vector, or what `cut` made of it.
    `noise` is everywhere the seed of the noisy layers, int32 [2]; None is their means, and
    networks without noisy layers ignore it. A recurrent state is the LSTM's: its memory, and the
    last action plus one and its reward, zeros where an episode begins. Where a network is not
    recurrent, S is 0 and a state is handed through.

    Attributes:
        num_parameters: P.
        num_actions: A.
        branches: choices of each part of an action, whose values take the place of those of A
            actions wherever values are meant; none without branches.
        state_size: S.
        num_moments: numbers of the environment that are followed: see `moments`.
        initial: the parameters to start from, float32 [P].
        has_policy: whether its outputs are a policy's, and no values of actions.
        segments: where in them the variables are that gradients change.
        kernels: where in them the weights of layers are, by name.
    """

    def __init__(
        self,
        encoder: list[keras.layers.Layer],
        lstm: LSTM | None,
        head: Callable[..., tf.Tensor],
        value: Value,
        environment: EnvironmentSpec,
        standardized: Standardized,
    ):
        """Puts the parts together; `head` is a function of features, noise and taus."""
        self._encoder = encoder
        self._lstm = lstm
        self._environment, self._standardized = environment, standardized
        self._head = head
        self._value, self.has_policy = value, value.learns_policy
        self.num_actions, self.branches = environment.num_actions, environment.branches
        self.state_size = lstm.state_size if lstm else 0
        self._model = self._connect()
        self._variables = [*standardized.variables, *self._model.trainable_variables]
        self.num_moments = standardized.num_moments
        self._sizes = [math.prod(variable.shape) for variable in self._variables]
        self.initial = np.concatenate([np.ravel(each.numpy()) for each in self._variables])
        self.num_parameters = self.initial.size
        self.kernels = segments.kernels(self._variables)
        self.segments = segments.of(self._variables, [*encoder, *filter(None, [lstm])])

    def cut(self, parameters: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The weights in a parameter vector [P], each in its shape.

        One cut for several calls makes their gradient one concatenation, which is cheaper than
        the sum of one for each call.
        """
        parts = tf.split(parameters, self._sizes)
        return tuple(
            tf.reshape(part, variable.shape)
            for part, variable in zip(parts, self._variables, strict=True)
        )

    def features(
        self, parameters: Parameters, observations: tf.Tensor, noise: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The encoder, from parameters [P] and observations [B, …] to [B, F].

        A custom network's features are the flattened observations.
        """
        with self._holding(parameters):
            return self._encode(observations, noise)

    def unroll(
        self,
        parameters: Parameters,
        observations: tf.Tensor,
        starts: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        state: tf.Tensor,
        noise: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Features along sequences, which the LSTM reads one step after the other.

        Args:
            parameters: float32 [P].
            observations: [B, L, …], L known when traced.
            starts: which steps begin an episode, with a state of zeros, bool [B, L].
            actions: what was done in each step, int32 [B, L]; the next one reads it.
            rewards: what that paid, float32 [B, L].
            state: before the first step, float32 [B, S].
            noise: seed of the noisy layers, int32 [2]; None is their means.

        Returns:
            Features for `outputs`, [B, L, F], and the state after the last step, [B, S].
        """
        with self._holding(parameters):
            features = self._encode_along(observations, noise)  # [B, L, F]
            if self._lstm is None:
                return features, state
            states = unrolling.states(self._lstm, features, starts, actions, rewards, state)
        return states[..., : self._lstm.units], states[:, -1]

    def following(
        self,
        parameters: Parameters,
        next_observations: tf.Tensor,
        along: Sequence[tf.Tensor],
        noise: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Features [B, L, F] of what each step led to, as the LSTM reads it after that step.

        Where an episode ends that is not the next step, which may begin another.

        Args:
            parameters: float32 [P], of a recurrent network.
            next_observations: [B, L, …].
            along: what `unroll` is given: observations, starts, actions, rewards and a state.
            noise: as for `unroll`.
        """
        assert self._lstm is not None, "others read every observation by itself"
        observations, *steps = along
        with self._holding(parameters):
            features = self._encode_along(observations, noise)
            states = unrolling.states(self._lstm, features, *steps)
            following = self._encode_along(next_observations, noise)
            flat = (tf.reshape(each, [-1, each.shape[-1]]) for each in (following, states))
            found, _ = self._lstm(*flat)  # [B·L, F]
        return tf.reshape(found, [-1, states.shape[1], self._lstm.units])

    def outputs(
        self,
        parameters: Parameters,
        features: tf.Tensor,
        noise: tf.Tensor | None = None,
        taus: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """The head, from features [K, F].

        Args:
            parameters: float32 [P].
            features: of `features` or `unroll`, [K, F].
            noise: seed of the noisy layers, int32 [2]; None is their means.
            taus: quantile fractions of iqn, float32 [K, N]; None is the midpoints
                (i + ½) / num_policy_quantiles.

        Returns:
            Without a value distribution action values [K, A]; logits (c51) or quantile values
            (qr_dqn, iqn) [K, A, N].
        """
        with self._holding(parameters):
            return self._head(features, noise, taus)

    def q_values(self, outputs: tf.Tensor) -> tf.Tensor:
        """The expected values of `outputs`' result, [K, A], or of one action's part of it, [K]."""
        return heads.expected_values(outputs, self._value)

    def rewards(self, parameters: Parameters, rewards: tf.Tensor) -> tf.Tensor:
        """Rewards, or sums of them, as they are learned from with these parameters."""
        with self._holding(parameters):
            return self._standardized.rewards(rewards)

    def act(
        self,
        parameters: Parameters,
        observations: tf.Tensor,
        state: tf.Tensor,
        noise: tf.Tensor | None = None,
        masks: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The policy, from observations [E, …] and state [E, S].

        Args:
            parameters: float32 [P].
            observations: [E, …].
            state: before them, float32 [E, S].
            noise: seed of the noisy layers and of a policy's choice, int32 [2]; None is their means
                and its likeliest action.
            masks: which actions are allowed, bool [E, A]; None or [E, 0]: all are.

        Returns:
            Actions, int32 [E]; the state after the step, [E, S]: its last two numbers, which are
            for what was done and paid, are left to whoever acts; `choosing.Chosen.log_probs`.
        """
        with self._holding(parameters):
            features = self._encode(observations, noise)
            if self._lstm is not None:
                features, state = self._lstm(features, state)
            outputs = self._head(features, noise)
        chosen = choosing.choose(outputs, self._value, self.branches, noise, masks)
        return chosen.actions, state, chosen.log_probs

    def quantized(self, weights: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Of a network built with `numbers="int8"`: its weights, of the same one's in float32."""
        return quantized.of_weights(weights, self._variables)

    def assign(self, vector: np.ndarray) -> None:
        """Puts a parameter vector [P] into the Keras model's weights."""
        parts = np.split(vector, np.cumsum(self._sizes)[:-1])
        for variable, part in zip(self._variables, parts, strict=True):
            variable.assign(part.reshape(variable.shape))

    def as_keras(self) -> keras.Model:
        """The model whose weights `assign` sets: observations [B, …] to Q-values [B, A].

        Of several parts, a dictionary of them, numbers of things counted from 0. Without noise. A
        recurrent one is from observations and state to Q-values and state. Its file is read by
        `keras.models.load_model` once this module is imported.
        """
        return self._model

    def _encode(self, observations: tf.Tensor, noise: tf.Tensor | None) -> tf.Tensor:
        given = inputs.given(observations, self._environment)
        return run(self._encoder, self._standardized(given), noise)

    def _encode_along(self, observations: tf.Tensor, noise: tf.Tensor | None) -> tf.Tensor:
        """Of sequences, [B, L, F]."""
        features = self._encode(tf.reshape(observations, [-1, *observations.shape[2:]]), noise)
        return tf.reshape(features, [-1, observations.shape[1], features.shape[-1]])

    def _connect(self) -> keras.Model:
        observations = inputs.as_keras(self._environment)
        features = run(self._encoder, self._standardized(observations), None)
        if self._lstm is None:
            q_values = self.q_values(self._head(features))
            return keras.Model(observations, q_values, name="q_network")
        state = keras.Input((self.state_size,))
        features, next_state = self._lstm(features, state)
        q_values = self.q_values(self._head(features))
        return keras.Model([observations, state], [q_values, next_state], name="q_network")

    @property
    def inner_models(self) -> tuple[str, ...]:
        """Names of models within its encoder, as images have one; a user's network is none."""
        return tuple(each.name for each in self._encoder if isinstance(each, keras.Model))

    @property
    def has_convolutions(self) -> bool:
        """Whether Keras's own convolutions are in it, also in models within it."""
        layers = self._model._flatten_layers(include_self=False, recursive=True)
        return any(map(_convolves, layers))

    @contextlib.contextmanager
    def _holding(self, parameters: Parameters) -> Iterator[None]:
        """Layers called inside use these parameters in place of their variables."""
        weights = parameters if isinstance(parameters, tuple) else self.cut(parameters)
        with keras.StatelessScope(state_mapping=zip(self._variables, weights, strict=True)):
            yield


def _convolves(layer: keras.layers.Layer) -> bool:
    # Keras has a dozen kinds, without a public class that all are.
    return "Conv" in type(layer).__name__ and not isinstance(layer, PatchConvolution)
