"""How the steps just made become the loss of a policy and of the values of states (A3C).

Mnih et al. 2016, arXiv:1602.01783; with `v_trace`, IMPALA's correction for steps of an older policy
(Espeholt et al. 2018, arXiv:1802.01561).

Shapes: T vector steps of E environments, M minibatches of B steps each, A actions, F features.
"""

import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning import losses
from ps_dqn.learning.rollouts import RecurrentRolloutSource, RolloutSource
from ps_dqn.learning.source import MinibatchLoss, merge, of_encoder, split
from ps_dqn.learning.v_trace import Judged, v_trace
from ps_dqn.networks import choosing
from ps_dqn.networks.network import Parameters, QNetwork
from ps_dqn.replay.batch import Rollout
from ps_dqn.seeds import Purpose, derive


def make(config: Config, network: QNetwork) -> "ActorCriticSource":
    """The source for a network with a memory, or without."""
    kind = RecurrentActorCriticSource if network.state_size else ActorCriticSource
    return kind(config, network)


class ActorCriticSource(RolloutSource):
    """The steps just made: those better than expected are made likelier."""

    def __init__(self, config: Config, network: QNetwork):
        super().__init__(config, network)
        self._options = config.actor_critic

    def prepare(self, parameters: Parameters, batch: Rollout, seed: tf.Tensor) -> Judged:
        """Returns and advantages of all steps in the order they are learned from, [M, B] each."""
        noise_seed, encoder_seed = derive(seed, Purpose.TARGET), of_encoder(seed, Purpose.TARGET)
        features = (
            self._all_features(parameters, batch, encoder_seed),
            self._next_features(parameters, batch, encoder_seed),
        )
        outputs, following = (
            self._network.outputs(parameters, each, noise_seed) for each in features
        )
        shape = batch.actions.shape  # [T, E]
        rhos = traces = 1.0
        if self._options.v_trace:
            log_policy = choosing.log_policy(outputs, merge(batch.masks))
            ratios = self._ratios(log_policy, merge(batch.actions), merge(batch.log_probs))
            ratios = split(ratios, shape)
            rhos = tf.minimum(ratios, self._options.rho_clip)
            traces = tf.minimum(ratios, self._options.trace_clip)
        judged = v_trace(
            self._network.rewards(parameters, batch.rewards),
            batch.discounts,
            split(choosing.state_values(outputs), shape),
            split(choosing.state_values(following), shape),
            batch.continues,
            self._lambda,
            rhos,
            traces,
        )
        return Judged(*(tf.gather(merge(each), batch.order) for each in judged))

    def loss(
        self,
        parameters: Parameters,
        minibatch: Rollout,
        prepared: Judged,
        seed: tf.Tensor,
        epsilon: tf.Tensor,
    ) -> MinibatchLoss:
        """The mean over steps, of which resets have no weight."""
        outputs = self._outputs(parameters, minibatch, seed)
        log_policy = choosing.log_policy(outputs, minibatch.masks)  # [B, A]
        advantages = prepared.advantages
        if self._options.v_trace:
            frozen = tf.stop_gradient(log_policy)
            ratios = self._ratios(frozen, minibatch.actions, minibatch.log_probs)
            advantages *= tf.minimum(ratios, self._options.rho_clip)
        values = choosing.state_values(outputs)
        errors = prepared.returns - values
        entropy = choosing.entropy(log_policy)
        loss = (
            -advantages * losses.chosen_values(log_policy, minibatch.actions)
            + self._options.value_weight * losses.regression(errors, self._value)
            - self._options.entropy_bonus * entropy
        )
        weights = minibatch.weights
        return MinibatchLoss(
            tf.reduce_mean(weights * loss),
            tf.abs(errors),
            tf.reduce_mean(values),
            tf.reduce_mean(entropy),
        )

    def _ratios(self, log_policy: tf.Tensor, actions: tf.Tensor, log_probs: tf.Tensor) -> tf.Tensor:
        """How much likelier the policy makes what was done than the one that did it, [K]."""
        return tf.exp(losses.chosen_values(log_policy, actions) - log_probs[:, 0])

    def _all_features(
        self, parameters: Parameters, batch: Rollout, noise_seed: tf.Tensor
    ) -> tf.Tensor:
        """Of the states that every step of a rollout was made in, [T·E, F]."""
        return self._network.features(parameters, merge(batch.observations), noise_seed)


class RecurrentActorCriticSource(ActorCriticSource, RecurrentRolloutSource):
    """The same of a recurrent network."""

    def _all_features(
        self, parameters: Parameters, batch: Rollout, noise_seed: tf.Tensor
    ) -> tf.Tensor:
        observations, starts, actions, rewards, states = self._along(batch)
        features, _ = self._network.unroll(
            parameters, observations, starts, actions, rewards, states, noise_seed
        )
        return self._as_made(features)
