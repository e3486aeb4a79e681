"""How the steps just made become the loss of one minibatch after the other (PQN).

Gallici et al. 2024, arXiv:2407.04811.

Shapes: T vector steps of E environments, M minibatches of B steps each, F features, A actions, P
parameters.
"""

import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning import losses, targets
from ps_dqn.learning.source import MinibatchLoss, merge, of_encoder, split
from ps_dqn.networks import heads
from ps_dqn.networks.network import Parameters, QNetwork
from ps_dqn.replay.batch import Rollout
from ps_dqn.seeds import Purpose, derive


class RolloutSource:
    """The steps just made, moved towards their λ-returns."""

    def __init__(self, config: Config, network: QNetwork):
        self._network, self._value = network, config.value
        self._lambda = config.replay.trace_lambda

    def minibatch(self, batch: Rollout, index: tf.Tensor) -> Rollout:
        """The steps that the rollout's order names, [B, …]."""
        order = batch.order[index]
        steps = batch._asdict()
        del steps["states"], steps["order"]
        picked = {name: tf.gather(merge(array), order) for name, array in steps.items()}
        return batch._replace(**picked, order=order)

    def prepare(self, parameters: Parameters, batch: Rollout, seed: tf.Tensor) -> tf.Tensor:
        """The λ-returns of all steps in the order they are learned from, float32 [M, B]."""
        noise_seed, encoder_seed = derive(seed, Purpose.TARGET), of_encoder(seed, Purpose.TARGET)
        next_features = self._next_features(parameters, batch, encoder_seed)
        q_values = self._network.outputs(parameters, next_features, noise_seed)  # [T·E, A]
        q_values = heads.only_allowed(q_values, merge(batch.next_masks))
        returns = targets.lambda_returns(
            self._network.rewards(parameters, batch.rewards),
            batch.discounts,
            split(tf.reduce_max(q_values, -1), batch.actions.shape),
            batch.continues,
            self._lambda,
        )
        return tf.gather(merge(returns), batch.order)

    def loss(
        self,
        parameters: Parameters,
        minibatch: Rollout,
        prepared: tf.Tensor,
        seed: tf.Tensor,
        epsilon: tf.Tensor,
    ) -> MinibatchLoss:
        """The mean over steps, of which resets have no weight."""
        outputs = self._outputs(parameters, minibatch, seed)
        chosen = losses.chosen_values(outputs, minibatch.actions)  # [B]
        errors = prepared - chosen
        loss = losses.regression(errors, self._value)
        mean = tf.reduce_mean(minibatch.weights * loss)
        return MinibatchLoss(mean, tf.abs(errors), tf.reduce_mean(chosen))

    def _outputs(self, parameters: Parameters, minibatch: Rollout, seed: tf.Tensor) -> tf.Tensor:
        """What the network that learns says of the steps of a minibatch, [B, …]."""
        noise_seed, encoder_seed = derive(seed, Purpose.ONLINE), of_encoder(seed, Purpose.ONLINE)
        features = self._features(parameters, minibatch, encoder_seed)
        return self._network.outputs(parameters, features, noise_seed)

    def _next_features(
        self, parameters: Parameters, batch: Rollout, noise_seed: tf.Tensor
    ) -> tf.Tensor:
        """Of what each step of a rollout led to, [T·E, F]."""
        return self._network.features(parameters, merge(batch.next_observations), noise_seed)

    def _features(
        self, parameters: Parameters, minibatch: Rollout, noise_seed: tf.Tensor
    ) -> tf.Tensor:
        """Of the steps of a minibatch, [B, F]."""
        return self._network.features(parameters, minibatch.observations, noise_seed)


class RecurrentRolloutSource(RolloutSource):
    """The same of a recurrent network, which runs along the steps of each environment.

    It begins with the state that was acted with. The values in the λ-returns are those that it has
    on this way; what an episode was left at, and what came after the last step, it reads after the
    step before, whatever the rollout goes on with.
    """

    def __init__(self, config: Config, network: QNetwork):
        super().__init__(config, network)
        self._length = config.vector_steps_per_rollout

    def minibatch(self, batch: Rollout, index: tf.Tensor) -> Rollout:
        """The steps of the sequences that the order names, and the states these begin with."""
        # A first step has the number of its environment.
        states = tf.gather(batch.states, batch.order[index][:: self._length])
        return super().minibatch(batch, index)._replace(states=states)

    def _next_features(
        self, parameters: Parameters, batch: Rollout, noise_seed: tf.Tensor
    ) -> tf.Tensor:
        following, along = _swapped(batch.next_observations), self._along(batch)
        features = self._network.following(parameters, following, along, noise_seed)  # [E, T, F]
        return self._as_made(features)

    def _features(
        self, parameters: Parameters, minibatch: Rollout, noise_seed: tf.Tensor
    ) -> tf.Tensor:
        shape = minibatch.states.shape[0], self._length
        features, _ = self._network.unroll(
            parameters,
            split(minibatch.observations, shape),
            split(minibatch.starts, shape),
            split(minibatch.actions, shape),
            split(minibatch.rewards, shape),
            minibatch.states,
            noise_seed,
        )
        return merge(features)

    def _along(self, batch: Rollout) -> tuple[tf.Tensor, ...]:
        """What the network runs along: observations, starts, actions and rewards [E, T], states."""
        steps = batch.observations, batch.starts, batch.actions, batch.rewards
        return (*map(_swapped, steps), batch.states)

    def _as_made(self, features: tf.Tensor) -> tf.Tensor:
        """Features along it [E, T, F] in the order in which the steps were made, [T·E, F]."""
        return merge(_swapped(features))


def _swapped(array: tf.Tensor) -> tf.Tensor:
    """The first two dimensions the other way round."""
    return tf.transpose(array, [1, 0, *range(2, array.shape.rank)])
