"""What every objective shares: a way to ask the network, and the loss around each comparison.

All work on features, so that they serve feed-forward and recurrent networks alike.

Shapes: K transitions, F features, A actions, N atoms or quantiles.
"""

import abc

import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning import penalties, targets
from ps_dqn.learning.passes import Bootstrap, Losses, Outcomes, Pass
from ps_dqn.networks import heads
from ps_dqn.networks.network import Parameters, QNetwork
from ps_dqn.seeds import Purpose, derive


class Objective(abc.ABC):
    """What all kinds share: a way to ask the network, and the Munchausen bonus."""

    def __init__(self, config: Config, network: QNetwork):
        self._value, self._network = config.value, network
        self._penalty = penalties.make(config.demonstrations)
        self._target_chooses = config.value.munchausen or not config.value.double_dqn

    def bootstrap(self, target: Pass, actions: tf.Tensor) -> Bootstrap:
        """The target network's part: outputs at the bootstrap states, and Munchausen's bonus.

        Args:
            target: the target network's; its `features` count for Munchausen only.
            actions: what was done, int32 [K].
        """
        seed = derive(target.seed, Purpose.TARGET)
        next_outputs = self._outputs(target.parameters, target.next_features, seed)
        if self._target_chooses:
            next_q = self._q_values(target.parameters, target.next_features, seed, next_outputs)
            next_q = heads.only_allowed(next_q, target.next_masks)
        else:
            next_q = tf.zeros_like(self._network.q_values(next_outputs))
        if not self._value.munchausen:
            return Bootstrap(next_outputs, next_q, tf.zeros_like(actions, tf.float32))
        q_values = self._q_values(target.parameters, target.features, seed)
        bonus = targets.munchausen_bonus(
            heads.only_allowed(q_values, target.masks),
            actions,
            self._value.munchausen_alpha,
            self._value.munchausen_temperature,
            self._value.munchausen_clip,
        )
        return Bootstrap(next_outputs, next_q, bonus)

    def losses(
        self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap, epsilon: tf.Tensor
    ) -> Losses:
        """Compares the online network with its targets; the gradient goes through `features`.

        Args:
            online: the online network's, without `next_features` where it does not select.
            outcomes: of the transitions.
            bootstrap: what `bootstrap` returned.
            epsilon: of the policy that acts, float32 [].

        Returns:
            How far it is from them, and in the loss what the options add for the other actions.
        """
        found, outputs = self._compare(online, outcomes, bootstrap, epsilon)
        if self._penalty is None:
            return found
        q_values = heads.only_allowed(self._network.q_values(outputs), online.masks)
        return found._replace(loss=found.loss + self._penalties(q_values, outcomes))

    def _penalties(self, q_values: tf.Tensor, outcomes: Outcomes) -> tf.Tensor:
        """What the options add, [K]."""
        assert self._penalty is not None
        return self._penalty(q_values, outcomes)

    @abc.abstractmethod
    def _compare(
        self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap, epsilon: tf.Tensor
    ) -> tuple[Losses, tf.Tensor]:
        """How far the online network is from its targets, and its outputs of all actions."""

    def _outputs(self, parameters: Parameters, features: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """What targets are made of, [K, A] or [K, A, N]."""
        return self._network.outputs(parameters, features, seed)

    def _q_values(
        self,
        parameters: Parameters,
        features: tf.Tensor,
        seed: tf.Tensor,
        outputs: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """What actions are chosen by, [K, A]; `outputs` where they were asked for already."""
        if outputs is None:
            outputs = self._network.outputs(parameters, features, seed)
        return self._network.q_values(outputs)

    def _selector(self, online: Pass, bootstrap: Bootstrap) -> tf.Tensor:
        """Values whose greedy action is bootstrapped from, [K, A]: the target network's.

        With Double DQN the online network's.
        """
        if online.next_features is None:
            return bootstrap.next_q
        seed = derive(online.seed, Purpose.SELECTOR)
        q_values = self._q_values(online.parameters, online.next_features, seed)
        return heads.only_allowed(q_values, online.next_masks)
