"""How what is replayed becomes the loss of one minibatch after the other.

Shapes: M minibatches of B items each, L rows of a sequence and T of them learned from, K
transitions in a minibatch (B, or B·T of sequences), F features, P parameters.
"""

import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning import actor_critic
from ps_dqn.learning.objectives import make
from ps_dqn.learning.passes import Bootstrap, Outcomes, Pass
from ps_dqn.learning.rollouts import RecurrentRolloutSource, RolloutSource
from ps_dqn.learning.source import MinibatchLoss, Source, merge, of_encoder, split
from ps_dqn.networks.network import Parameters, QNetwork
from ps_dqn.replay.batch import Sequences, Transitions
from ps_dqn.seeds import Purpose


def make_source(config: Config, network: QNetwork) -> Source:
    """The kind of batch that the configuration names."""
    if config.value.learns_policy:
        return actor_critic.make(config, network)
    if config.replay.replay == "rollout":
        kind = RecurrentRolloutSource if network.state_size else RolloutSource
        return kind(config, network)
    if network.state_size:
        return SequenceSource(config, network)
    return TransitionSource(config, network)


class TransitionSource:
    """n-step transitions from replay."""

    def __init__(self, config: Config, network: QNetwork):
        self._network, self._objective = network, make(config, network)
        self._is_double, self._is_munchausen = config.value.double_dqn, config.value.munchausen

    def minibatch(self, batch: Transitions, index: tf.Tensor) -> Transitions:
        """The transitions of one update."""
        return Transitions(*(array[index] for array in batch))

    def prepare(self, parameters: Parameters, batch: Transitions, seed: tf.Tensor) -> Bootstrap:
        """The target network's part of all minibatches in one pass: it is the same for all."""
        shape = batch.actions.shape  # [M, B]
        noise_seed = of_encoder(seed, Purpose.TARGET)
        following = merge(batch.next_observations)
        next_features = self._network.features(parameters, following, noise_seed)
        features = next_features
        if self._is_munchausen:
            features = self._network.features(parameters, merge(batch.observations), noise_seed)
        masks = merge(batch.masks), merge(batch.next_masks)
        target = Pass(parameters, features, next_features, seed, *masks)
        bootstrap = self._objective.bootstrap(target, merge(batch.actions))
        return Bootstrap(*(split(each, shape) for each in bootstrap))

    def loss(
        self,
        parameters: Parameters,
        minibatch: Transitions,
        prepared: Bootstrap,
        seed: tf.Tensor,
        epsilon: tf.Tensor,
    ) -> MinibatchLoss:
        """The mean over transitions, each with its weight."""
        next_features = None
        if self._is_double:
            frozen = tf.nest.map_structure(tf.stop_gradient, parameters)
            following, noise_seed = minibatch.next_observations, of_encoder(seed, Purpose.SELECTOR)
            next_features = self._network.features(frozen, following, noise_seed)
        noise_seed = of_encoder(seed, Purpose.ONLINE)
        features = self._network.features(parameters, minibatch.observations, noise_seed)
        masks = minibatch.masks, minibatch.next_masks
        online = Pass(parameters, features, next_features, seed, *masks)
        demonstrated = minibatch.demonstrated[:, 0] if minibatch.demonstrated.shape[1] else None
        outcomes = Outcomes(minibatch.actions, minibatch.returns, minibatch.discounts, demonstrated)
        found = self._objective.losses(online, outcomes, prepared, epsilon)
        loss = tf.reduce_mean(minibatch.weights * found.loss)
        return MinibatchLoss(loss, found.error, tf.reduce_mean(found.q_value))


class SequenceSource:
    """Sequences from replay, for recurrent networks (R2D2, Kapturowski et al. 2019).

    Both networks run from the stored state through the burn-in, which moves no parameters, and
    then through the steps learned from and the n after them.
    """

    # Share of a sequence's largest error in its priority; the rest is the mean's.
    _LARGEST = 0.9

    def __init__(self, config: Config, network: QNetwork):
        self._network, self._objective = network, make(config, network)
        self._is_double, self._is_noisy = config.value.double_dqn, config.network.noisy
        self._burn_in, self._length = config.replay.burn_in, config.replay.sequence_length
        self._traces = config.replay.traces != "none"

    def minibatch(self, batch: Sequences, index: tf.Tensor) -> Sequences:
        """The sequences of one update."""
        return Sequences(*(array[index] for array in batch))

    def prepare(self, parameters: Parameters, batch: Sequences, seed: tf.Tensor) -> Bootstrap:
        """The target network's part of all minibatches, along all sequences at once."""
        shape = batch.returns.shape  # [M, B, T]
        merged = Sequences(*(merge(array) for array in batch))
        noise_seed = of_encoder(seed, Purpose.TARGET)
        features = self._features(parameters, merged, noise_seed)  # [M·B, L - burn_in, F]
        target = Pass(parameters, *self._cut(features, merged), seed, *self._masks(merged))
        bootstrap = self._objective.bootstrap(target, self._trained_actions(merged))
        return Bootstrap(*(split(each, shape) for each in bootstrap))

    def loss(
        self,
        parameters: Parameters,
        minibatch: Sequences,
        prepared: Bootstrap,
        seed: tf.Tensor,
        epsilon: tf.Tensor,
    ) -> MinibatchLoss:
        """The mean over steps; a sequence's error is 0.9 of its largest and 0.1 of their mean."""
        noise_seed = of_encoder(seed, Purpose.ONLINE)
        along = self._features(parameters, minibatch, noise_seed)
        features, following = self._cut(along, minibatch)
        if self._is_double and self._is_noisy:  # what chooses has noise of its own
            noise_seed = of_encoder(seed, Purpose.SELECTOR)
            along = self._features(parameters, minibatch, noise_seed)
            following = self._cut(along, minibatch)[1]
        next_features = tf.stop_gradient(following) if self._is_double else None
        online = Pass(parameters, features, next_features, seed, *self._masks(minibatch))
        outcomes = Outcomes(
            self._trained_actions(minibatch),
            merge(minibatch.returns),
            merge(minibatch.discounts),
            continues=self._continues(minibatch) if self._traces else None,
        )
        bootstrap = Bootstrap(*(merge(each) for each in prepared))
        found = self._objective.losses(online, outcomes, bootstrap, epsilon)
        weights = merge(minibatch.weights)  # [B·T]
        counts = tf.cast(minibatch.weights > 0, tf.float32)  # [B, T]
        errors = split(found.error, minibatch.returns.shape) * counts
        mean = tf.reduce_sum(errors, -1) / tf.maximum(tf.reduce_sum(counts, -1), 1.0)
        error = self._LARGEST * tf.reduce_max(errors, -1) + (1 - self._LARGEST) * mean
        return MinibatchLoss(
            tf.reduce_mean(weights * found.loss), error, tf.reduce_mean(found.q_value)
        )

    def _features(
        self, parameters: tf.Tensor, batch: Sequences, noise_seed: tf.Tensor
    ) -> tf.Tensor:
        """Features of the rows after the burn-in, [B, L - burn_in, F]."""
        burn_in, state = self._burn_in, batch.states
        observations, starts, actions, rewards = (
            (each[:, :burn_in], each[:, burn_in:])
            for each in (batch.observations, batch.starts, batch.actions, batch.rewards)
        )
        if burn_in:
            frozen = tf.nest.map_structure(tf.stop_gradient, parameters)
            _, state = self._network.unroll(
                frozen, observations[0], starts[0], actions[0], rewards[0], state, noise_seed
            )
        features, _ = self._network.unroll(
            parameters,
            observations[1],
            starts[1],
            actions[1],
            rewards[1],
            tf.stop_gradient(state),
            noise_seed,
        )
        return features

    def _continues(self, batch: Sequences) -> tf.Tensor:
        """1 where the next row is learned from and of the same episode, float32 [B, T].

        After an episode's last transition comes a row that is none, which has no weight.
        """
        continues = tf.cast(batch.weights[:, 1:] > 0, tf.float32)
        return tf.concat([continues, tf.zeros_like(continues[:, :1])], axis=1)

    def _masks(self, batch: Sequences) -> tuple[tf.Tensor, tf.Tensor]:
        """Of the rows learned from, and of their bootstrap rows, bool [B·T, A] each."""
        trained = batch.masks[:, self._burn_in : self._burn_in + self._length]
        return merge(trained), merge(tf.gather(batch.masks, batch.bootstraps, batch_dims=1))

    def _trained_actions(self, batch: Sequences) -> tf.Tensor:
        """Of the rows learned from, int32 [B·T]."""
        return merge(batch.actions[:, self._burn_in : self._burn_in + self._length])

    def _cut(self, features: tf.Tensor, batch: Sequences) -> tuple[tf.Tensor, tf.Tensor]:
        """Features of the rows learned from, and of their bootstrap rows, [B·T, F] each."""
        rows = features.shape[1]
        # A product with one-hot rows, for its dense gradient.
        is_bootstrap = tf.one_hot(batch.bootstraps - self._burn_in, rows)  # [B, T, rows]
        following = tf.matmul(is_bootstrap, features)  # [B, T, F]
        return merge(features[:, : self._length]), merge(following)
