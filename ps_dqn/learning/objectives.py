"""What the network is moved towards and how far it is from it: one loss for each transition.

One class for each `value_distribution`; options of the target (Double, Munchausen, rescaling) are
theirs. All work on features, so that they serve feed-forward and recurrent networks alike.

Shapes: K transitions, F features, A actions, N atoms or quantiles.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning import distributional, losses
from ps_dqn.networks.network import QNetwork
from ps_dqn.seeds import derive

# Random numbers for different ends, from one seed.
_ONLINE, _TARGET, _CHOOSER = 1, 2, 3


class Outcomes(NamedTuple):
    """What replay says of K transitions."""

    actions: tf.Tensor  # int32 [K]
    returns: tf.Tensor  # float32 [K]
    discounts: tf.Tensor  # float32 [K]


class Bootstrap(NamedTuple):
    """What the target network says of K transitions; it does not depend on the online one."""

    next_outputs: tf.Tensor  # at the bootstrap state, [K, A] or [K, A, N]
    bonus: tf.Tensor  # Munchausen's, float32 [K]; zeros without


class Losses(NamedTuple):
    """How far the online network is from its targets."""

    loss: tf.Tensor  # float32 [K]
    error: tf.Tensor  # what priorities are made of, at least 0, float32 [K]
    q_value: tf.Tensor  # of the action taken, float32 [K]


class Objective(Protocol):
    """How one kind of value is learned."""

    def bootstrap(
        self,
        parameters: tf.Tensor,
        features: tf.Tensor,
        next_features: tf.Tensor,
        actions: tf.Tensor,
        seed: tf.Tensor,
    ) -> Bootstrap:
        """Asks the target network.

        Args:
            parameters: the target network's, float32 [P].
            features: its own, of the states acted in, [K, F]; for Munchausen only.
            next_features: its own, of the bootstrap states, [K, F].
            actions: what was done, int32 [K].
            seed: of noise and random quantiles, int32 [2].
        """

    def losses(
        self,
        parameters: tf.Tensor,
        features: tf.Tensor,
        next_features: tf.Tensor | None,
        outcomes: Outcomes,
        bootstrap: Bootstrap,
        seed: tf.Tensor,
    ) -> Losses:
        """Compares the online network with its targets; the gradient goes through `features`.

        Args:
            parameters: the online network's, float32 [P].
            features: its own, of the states acted in, [K, F].
            next_features: its own, of the bootstrap states, [K, F]; None without Double DQN.
            outcomes: of the transitions.
            bootstrap: what `bootstrap` returned.
            seed: of noise and random quantiles, int32 [2].
        """


def make(config: Config, network: QNetwork) -> Objective:
    """The objective that the configuration names."""
    kinds: dict[str, Callable[[Config, QNetwork], Objective]] = {
        "none": ExpectedValue,
        "c51": Categorical,
        "qr_dqn": FixedQuantiles,
        "iqn": ImplicitQuantiles,
    }
    return kinds[config.value.value_distribution](config, network)


class _Base:
    """What all kinds share: a way to ask the network, and the Munchausen bonus."""

    def __init__(self, config: Config, network: QNetwork):
        self._value, self._network = config.value, network

    def bootstrap(self, parameters, features, next_features, actions, seed):  # type: ignore[no-untyped-def]
        """See `Objective.bootstrap`."""
        asked = derive(seed, _TARGET)
        next_outputs = self._outputs(parameters, next_features, asked)
        if not self._value.munchausen:
            return Bootstrap(next_outputs, tf.zeros_like(actions, tf.float32))
        now = self._network.q_values(self._outputs(parameters, features, asked))  # [K, A]
        bonus = losses.munchausen_bonus(
            now,
            actions,
            self._value.munchausen_alpha,
            self._value.munchausen_temperature,
            self._value.munchausen_clip,
        )
        return Bootstrap(next_outputs, bonus)

    def _outputs(self, parameters: tf.Tensor, features: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """The target network's outputs."""
        return self._network.outputs(parameters, features, seed)

    def _chooser(
        self,
        parameters: tf.Tensor,
        next_features: tf.Tensor | None,
        bootstrap: Bootstrap,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        """Values by which the bootstrap action is chosen, [K, A]: Double DQN's or the target's."""
        if next_features is None:
            return self._network.q_values(bootstrap.next_outputs)
        outputs = self._outputs(parameters, next_features, derive(seed, _CHOOSER))
        return self._network.q_values(outputs)


class ExpectedValue(_Base):
    """DQN (Mnih et al. 2015), Double DQN, Munchausen DQN, and R2D2's rescaled values."""

    def losses(self, parameters, features, next_features, outcomes, bootstrap, seed):  # type: ignore[no-untyped-def]
        """See `Objective.losses`; the error is that of the value as it is learned."""
        outputs = self._network.outputs(parameters, features, derive(seed, _ONLINE))  # [K, A]
        chosen = losses.chosen_values(outputs, outcomes.actions)  # [K]
        errors = self._targets(parameters, next_features, outcomes, bootstrap, seed) - chosen
        loss = losses.regression(errors, self._value.loss, self._value.huber_delta)
        return Losses(loss, tf.abs(errors), chosen)

    def _targets(
        self,
        parameters: tf.Tensor,
        next_features: tf.Tensor | None,
        outcomes: Outcomes,
        bootstrap: Bootstrap,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        value, next_q = self._value, bootstrap.next_outputs
        if value.munchausen:
            return losses.munchausen_targets(
                outcomes.returns,
                outcomes.discounts,
                next_q,
                bootstrap.bonus,
                value.munchausen_temperature,
            )
        chooser = self._chooser(parameters, next_features, bootstrap, seed)
        if not value.value_rescaling:
            return losses.td_targets(outcomes.returns, outcomes.discounts, next_q, chooser)
        unscaled = losses.unrescale(next_q)
        targets = losses.td_targets(outcomes.returns, outcomes.discounts, unscaled, chooser)
        return losses.rescale(targets)


class Categorical(_Base):
    """C51 (Bellemare et al. 2017, arXiv:1707.06887), as in Rainbow (arXiv:1710.02298)."""

    def losses(self, parameters, features, next_features, outcomes, bootstrap, seed):  # type: ignore[no-untyped-def]
        """See `Objective.losses`; the error is the divergence from the target, as in Rainbow."""
        value = self._value
        support = distributional.support(value.v_min, value.v_max, value.num_atoms)  # [N]
        outputs = self._network.outputs(parameters, features, derive(seed, _ONLINE))
        logits = distributional.chosen(outputs, outcomes.actions)  # [K, N]
        chooser = self._chooser(parameters, next_features, bootstrap, seed)
        targets = distributional.categorical_targets(
            outcomes.returns, outcomes.discounts, bootstrap.next_outputs, chooser, support
        )
        loss = distributional.categorical_loss(logits, targets)  # [K]
        # What of the loss is not the target's own entropy can be learned.
        error = tf.nn.relu(loss - distributional.entropy(targets))
        return Losses(loss, error, distributional.categorical_mean(logits, support))


class FixedQuantiles(_Base):
    """QR-DQN (Dabney et al. 2018, arXiv:1710.10044)."""

    def losses(self, parameters, features, next_features, outcomes, bootstrap, seed):  # type: ignore[no-untyped-def]
        """See `Objective.losses`; the error is that of the mean over quantiles."""
        outputs, taus = self._online(parameters, features, derive(seed, _ONLINE))
        quantiles = distributional.chosen(outputs, outcomes.actions)  # [K, N]
        targets = self._targets(parameters, next_features, outcomes, bootstrap, seed)  # [K, N']
        loss = distributional.quantile_huber(quantiles, targets, taus, self._value.huber_delta)
        q_value = tf.reduce_mean(quantiles, axis=-1)
        return Losses(loss, tf.abs(tf.reduce_mean(targets, axis=-1) - q_value), q_value)

    def _online(
        self, parameters: tf.Tensor, features: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Quantiles [K, A, N] and their fractions, [N] or [K, N]."""
        outputs = self._network.outputs(parameters, features, seed)
        return outputs, distributional.midpoints(self._value.num_quantiles)

    def _targets(
        self,
        parameters: tf.Tensor,
        next_features: tf.Tensor | None,
        outcomes: Outcomes,
        bootstrap: Bootstrap,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        if self._value.munchausen:
            return distributional.munchausen_quantile_targets(
                outcomes.returns,
                outcomes.discounts,
                bootstrap.next_outputs,
                self._network.q_values(bootstrap.next_outputs),
                bootstrap.bonus,
                self._value.munchausen_temperature,
            )
        chooser = self._chooser(parameters, next_features, bootstrap, seed)
        return distributional.quantile_targets(
            outcomes.returns, outcomes.discounts, bootstrap.next_outputs, chooser
        )


class ImplicitQuantiles(FixedQuantiles):
    """IQN (Dabney et al. 2018, arXiv:1806.06923) and Munchausen IQN (arXiv:2007.14430)."""

    def _online(
        self, parameters: tf.Tensor, features: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        taus = self._taus(features, self._value.num_quantiles, seed)  # [K, N]
        return self._network.outputs(parameters, features, seed, taus), taus

    def _outputs(self, parameters: tf.Tensor, features: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        taus = self._taus(features, self._value.num_target_quantiles, seed)  # [K, N']
        return self._network.outputs(parameters, features, seed, taus)

    def _taus(self, features: tf.Tensor, count: int, seed: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_uniform([features.shape[0], count], seed)
