"""Heads: from features to action values or to their distributions.

Shapes: K rows, F features, A actions, N atoms or quantiles.
"""

import keras
import tensorflow as tf
from keras import ops

from ps_dqn.config import Network, Value
from ps_dqn.config.agent import ON_ATOMS
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks import atoms, branches
from ps_dqn.networks.layers import Factory, run

# The value of an action that is not allowed, where actions are chosen.
NOT_ALLOWED = -1e9
# Variance of a policy's first logits.
_FIRST_LOGITS = 1e-4


def num_atoms(value: Value) -> int | None:
    """N where the network has its own outputs for each: all but the expected value and iqn."""
    if value.value_distribution in ON_ATOMS:
        return value.num_atoms
    return value.num_quantiles if value.value_distribution == "qr_dqn" else None


def expected_values(outputs: tf.Tensor, value: Value) -> tf.Tensor:
    """Expected returns of a head's outputs, without their last axis N where they have it.

    A policy's logits (a3c); the outputs themselves (none), the mean Σ_i p_i z_i of the categorical
    distribution of logits [..., N] on the atoms of `v_min`..`v_max` (C51, arXiv:1707.06887) or the
    middles of its bins (HL-Gauss, arXiv:2403.03950), or the mean of quantile values [..., N].
    """
    if value.learns_policy:
        return outputs[..., :-1]
    if value.value_distribution == "none":
        return outputs
    if value.value_distribution in ON_ATOMS:
        places = atoms.support if value.value_distribution == "c51" else atoms.middles
        support = places(value.v_min, value.v_max, value.num_atoms)  # [N]
        return ops.sum(ops.softmax(outputs, axis=-1) * support, axis=-1)
    return ops.mean(outputs, axis=-1)


def only_allowed(q_values: tf.Tensor, masks: tf.Tensor | None) -> tf.Tensor:
    """Values to choose by: actions that are not allowed are worth far less than any other.

    Args:
        q_values: float32 [B, A].
        masks: which actions are allowed, at least one of each row, bool [B, A]; None or [B, 0]
            where all are.

    Returns:
        float32 [B, A]; finite, so that no share of 0 makes a NaN of it.
    """
    if masks is None or not masks.shape[-1]:
        return q_values
    return tf.where(masks, q_values, NOT_ALLOWED)


def greedy(q_values: tf.Tensor, masks: tf.Tensor | None, branching: tuple[int, ...]) -> tf.Tensor:
    """The numbers of the best actions, int32 [B].

    Args:
        q_values: float32 [B, A]; with branches those of each part's choices.
        masks: which actions are allowed, bool [B, A]; None or [B, 0]: all are.
        branching: choices of each part of an action, or none.
    """
    if branching:
        return branches.greedy(q_values, branching)
    return tf.argmax(only_allowed(q_values, masks), -1, output_type=tf.int32)


class Head:
    """The last hidden layer and the output layer.

    With `dueling` both exist twice, for the state's value and the actions' advantages, and
    Q = V + A - mean A (Wang et al. 2016, arXiv:1511.06581), for each atom or quantile; with
    branches within each of them (Tavakoli et al. 2018, arXiv:1711.08946, eq. 1), and A is the
    number of all their choices.
    """

    def __init__(
        self, network: Network, value: Value, environment: EnvironmentSpec, factory: Factory
    ):
        self._num_actions = environment.num_outputs
        self._branches = environment.branches
        self._atoms = num_atoms(value)
        self._embedding = None
        if value.value_distribution == "iqn":
            self._embedding = factory.quantile_embedding(
                value.num_cosines, value.num_policy_quantiles
            )

        def stream(outputs: int) -> list[keras.layers.Layer]:
            layers: list[keras.layers.Layer] = []
            for width in network.hidden_sizes[-1:]:
                layers += factory.hidden(width)
            return [*layers, factory.outputs(outputs * (self._atoms or 1), 1.0)]

        self._values = stream(1) if network.dueling else []
        self._actions = stream(self._num_actions)

    def __call__(
        self, features: tf.Tensor, noise: tf.Tensor | None = None, taus: tf.Tensor | None = None
    ) -> tf.Tensor:
        """From features [K, F] to [K, A], or to [K, A, N] with a value distribution.

        Args:
            features: float32 [K, F].
            noise: seed of the noisy layers, int32 [2]; None is their means.
            taus: quantile fractions of iqn, [K, N]; None is the midpoints of the policy.
        """
        if self._embedding is None:
            return self._outputs(features, noise)
        embedded = self._embedding(features, taus)  # [K, N, F]
        number, width = embedded.shape[1:]
        values = self._outputs(ops.reshape(embedded, (-1, width)), noise)  # [K·N, A]
        values = ops.reshape(values, (-1, number, self._num_actions))
        return ops.transpose(values, (0, 2, 1))  # [K, A, N]

    def _outputs(self, x: tf.Tensor, noise: tf.Tensor | None) -> tf.Tensor:
        atoms = () if self._atoms is None else (self._atoms,)
        actions = run(self._actions, x, noise)
        if atoms:
            actions = ops.reshape(actions, (-1, self._num_actions, *atoms))
        if not self._values:
            return actions
        values = ops.reshape(run(self._values, x, noise), (-1, 1, *atoms))
        if not self._branches:
            return values + actions - ops.mean(actions, axis=1, keepdims=True)
        parts = branches.split(actions, self._branches)
        centred = [part - ops.mean(part, axis=1, keepdims=True) for part in parts]
        return values + ops.concatenate(centred, axis=1)


class PolicyHead:
    """The last hidden layer, and behind it a policy's logits and the value of the state.

    As in A3C they share all but their own layers (Mnih et al. 2016, arXiv:1602.01783, section 4).
    """

    def __init__(self, network: Network, environment: EnvironmentSpec, factory: Factory):
        self._hidden: list[keras.layers.Layer] = []
        for width in network.hidden_sizes[-1:]:
            self._hidden += factory.hidden(width)
        # All actions are nearly as likely at first.
        self._policy = [factory.outputs(environment.num_actions, _FIRST_LOGITS)]
        self._value = [factory.outputs(1, 1.0)]

    def __call__(
        self, features: tf.Tensor, noise: tf.Tensor | None = None, taus: tf.Tensor | None = None
    ) -> tf.Tensor:
        """From features [K, F] to [K, A + 1], the value last; it has no taus."""
        hidden = run(self._hidden, features, noise)
        outputs = run(self._policy, hidden, noise), run(self._value, hidden, noise)
        return ops.concatenate(outputs, axis=-1)


def make(
    network: Network, value: Value, environment: EnvironmentSpec, factory: Factory
) -> Head | PolicyHead:
    """The head of what is learned."""
    if value.learns_policy:
        return PolicyHead(network, environment, factory)
    return Head(network, value, environment, factory)
