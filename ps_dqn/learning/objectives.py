"""What the network is moved towards and how far it is from it: one loss for each transition.

One class for each `value_distribution`, and one for actions of branches; options of the target
(Double, Munchausen, rescaling) are theirs.

Shapes: K transitions, F features, A actions, N atoms or quantiles.
"""

from collections.abc import Callable

import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning import distributional, losses, targets
from ps_dqn.learning.objective import Objective
from ps_dqn.learning.passes import Bootstrap, Losses, Outcomes, Pass
from ps_dqn.networks import atoms, branches
from ps_dqn.networks.network import Parameters, QNetwork
from ps_dqn.seeds import Purpose, derive


def make(config: Config, network: QNetwork) -> Objective:
    """The objective that the configuration names."""
    if config.environment.branching:
        return Branching(config, network)
    kinds: dict[str, Callable[[Config, QNetwork], Objective]] = {
        "none": ExpectedValue,
        "hl_gauss": Histogram,
        "c51": Categorical,
        "qr_dqn": FixedQuantiles,
        "iqn": ImplicitQuantiles,
    }
    return kinds[config.value.value_distribution](config, network)


class ExpectedValue(Objective):
    """DQN (Mnih et al. 2015), Double DQN, Munchausen DQN, and R2D2's rescaled values.

    Along sequences also Q(λ) and Retrace.
    """

    def __init__(self, config: Config, network: QNetwork):
        super().__init__(config, network)
        self._lambda = config.replay.sequence_lambda
        self._cuts_traces = config.replay.traces == "retrace"

    def _compare(
        self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap, epsilon: tf.Tensor
    ) -> tuple[Losses, tf.Tensor]:
        """The TD error's loss; errors are of values as they are learned, rescaled or not."""
        seed = derive(online.seed, Purpose.ONLINE)
        outputs = self._network.outputs(online.parameters, online.features, seed)  # [K, A]
        chosen = losses.chosen_values(outputs, outcomes.actions)  # [K]
        errors = self._targets(online, outcomes, bootstrap, epsilon) - chosen
        return Losses(losses.regression(errors, self._value), tf.abs(errors), chosen), outputs

    def _targets(
        self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap, epsilon: tf.Tensor
    ) -> tf.Tensor:
        value, next_q = self._value, bootstrap.next_outputs
        returns, discounts = outcomes.returns, outcomes.discounts
        if value.munchausen:
            return targets.munchausen_targets(
                returns, discounts, bootstrap.next_q, bootstrap.bonus, value.munchausen_temperature
            )
        selector, target = self._selector(online, bootstrap), targets.TARGETS[value.target]
        if value.value_rescaling:
            next_q = targets.unrescale(next_q)
        found = target(returns, discounts, next_q, selector, epsilon, online.next_masks)
        if outcomes.continues is not None:
            found = self._along(found, outcomes, selector)
        return targets.rescale(found) if value.value_rescaling else found

    def _along(self, one_step: tf.Tensor, outcomes: Outcomes, selector: tf.Tensor) -> tf.Tensor:
        """One-step targets [K] of sequences [B, T], carried along their traces."""
        assert outcomes.continues is not None
        shape = outcomes.continues.shape  # [B, T]
        traces = self._lambda * outcomes.continues
        if self._cuts_traces:
            greedy = tf.reshape(tf.argmax(selector, -1, output_type=tf.int32), shape)  # of t + 1
            actions = tf.reshape(outcomes.actions, shape)
            is_greedy = tf.cast(greedy[:, :-1] == actions[:, 1:], tf.float32)
            traces *= tf.concat([is_greedy, tf.zeros_like(is_greedy[:, :1])], axis=1)
        along = (
            tf.transpose(tf.reshape(each, shape))
            for each in (outcomes.returns, outcomes.discounts, one_step, traces)
        )
        return tf.reshape(tf.transpose(targets.along_traces(*along)), [-1])


class Branching(ExpectedValue):
    """Values of each part's choices, moved towards what all parts expect in the mean.

    BDQ's (Tavakoli et al. 2018, arXiv:1711.08946): targets of eq. 6, and eq. 7's mean over the
    parts. Shapes: D parts, and outputs [K, C] of all their choices.
    """

    def _compare(
        self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap, epsilon: tf.Tensor
    ) -> tuple[Losses, tf.Tensor]:
        """The mean of the parts' losses, and of their errors."""
        counts, target = self._network.branches, targets.TARGETS[self._value.target]
        seed = derive(online.seed, Purpose.ONLINE)
        outputs = self._network.outputs(online.parameters, online.features, seed)  # [K, C]
        taken = branches.choices(outcomes.actions, counts)
        parts = zip(branches.split(outputs, counts), taken, strict=True)
        chosen = tf.stack([losses.chosen_values(*each) for each in parts], axis=-1)  # [K, D]
        next_q = branches.split(bootstrap.next_outputs, counts)
        selector = branches.split(self._selector(online, bootstrap), counts)
        returns, discounts = outcomes.returns, outcomes.discounts
        found = [
            target(returns, discounts, *each, epsilon, None)
            for each in zip(next_q, selector, strict=True)
        ]
        errors = tf.reduce_mean(tf.stack(found, -1), -1, keepdims=True) - chosen  # [K, D]
        loss = tf.reduce_mean(losses.regression(errors, self._value), -1)
        error, value = tf.reduce_mean(tf.abs(errors), -1), tf.reduce_mean(chosen, -1)
        return Losses(loss, error, value), outputs

    def _penalties(self, q_values: tf.Tensor, outcomes: Outcomes) -> tf.Tensor:
        """The mean over the parts."""
        counts = self._network.branches
        taken = branches.choices(outcomes.actions, counts)
        parts = zip(branches.split(q_values, counts), taken, strict=True)
        added = [
            super(Branching, self)._penalties(values, outcomes._replace(actions=actions))
            for values, actions in parts
        ]
        return tf.reduce_mean(tf.stack(added, axis=-1), axis=-1)


class Histogram(ExpectedValue):
    """Expected values as means of histograms (HL-Gauss; Farebrother et al. 2024, arXiv:2403.03950).

    Targets are numbers as those of DQN, and all that makes them goes with it.
    """

    def _compare(
        self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap, epsilon: tf.Tensor
    ) -> tuple[Losses, tf.Tensor]:
        """The cross-entropy with a Gaussian around the target; the error is the TD error."""
        value = self._value
        seed = derive(online.seed, Purpose.ONLINE)
        outputs = self._network.outputs(online.parameters, online.features, seed)
        logits = distributional.chosen(outputs, outcomes.actions)  # [K, N]
        q_value = self._network.q_values(logits)  # [K]
        next_q = self._network.q_values(bootstrap.next_outputs)  # [K, A]
        bootstrap = bootstrap._replace(next_outputs=next_q)
        found = self._targets(online, outcomes, bootstrap, epsilon)  # [K]
        ends = atoms.support(value.v_min, value.v_max, value.num_atoms + 1)
        masses = distributional.gaussian_histogram(found, ends, value.hl_gauss_sigma)  # [K, N]
        loss = distributional.categorical_loss(logits, masses)
        return Losses(loss, tf.abs(found - q_value), q_value), outputs


class Categorical(Objective):
    """C51 (Bellemare et al. 2017, arXiv:1707.06887), as in Rainbow (arXiv:1710.02298)."""

    def _compare(
        self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap, epsilon: tf.Tensor
    ) -> tuple[Losses, tf.Tensor]:
        """The cross-entropy; the error is the divergence from the target, as in Rainbow."""
        value = self._value
        support = atoms.support(value.v_min, value.v_max, value.num_atoms)  # [N]
        seed = derive(online.seed, Purpose.ONLINE)
        outputs = self._network.outputs(online.parameters, online.features, seed)
        logits = distributional.chosen(outputs, outcomes.actions)  # [K, N]
        selector = self._selector(online, bootstrap)
        masses = distributional.categorical_targets(
            outcomes.returns, outcomes.discounts, bootstrap.next_outputs, selector, support
        )
        loss = distributional.categorical_loss(logits, masses)  # [K]
        # What of the loss is not the target's own entropy can be learned.
        error = tf.nn.relu(loss - distributional.entropy(masses))
        return Losses(loss, error, self._network.q_values(logits)), outputs


class FixedQuantiles(Objective):
    """QR-DQN (Dabney et al. 2018, arXiv:1710.10044)."""

    def _compare(
        self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap, epsilon: tf.Tensor
    ) -> tuple[Losses, tf.Tensor]:
        """Quantile regression; the error is that of the mean over quantiles."""
        outputs, taus = self._online(online)
        quantiles = distributional.chosen(outputs, outcomes.actions)  # [K, N]
        samples = self._targets(online, outcomes, bootstrap)  # [K, N']
        loss = distributional.quantile_huber(quantiles, samples, taus, self._value.huber_delta)
        q_value = self._network.q_values(quantiles)
        errors = tf.reduce_mean(samples, axis=-1) - q_value
        return Losses(loss, tf.abs(errors), q_value), outputs

    def _online(self, online: Pass) -> tuple[tf.Tensor, tf.Tensor]:
        """Quantiles [K, A, N] and their fractions, [N] or [K, N]."""
        seed = derive(online.seed, Purpose.ONLINE)
        outputs = self._network.outputs(online.parameters, online.features, seed)
        return outputs, atoms.midpoints(self._value.num_quantiles)

    def _targets(self, online: Pass, outcomes: Outcomes, bootstrap: Bootstrap) -> tf.Tensor:
        returns, discounts = outcomes.returns, outcomes.discounts
        if self._value.munchausen:
            return distributional.munchausen_quantile_targets(
                returns,
                discounts,
                bootstrap.next_outputs,
                bootstrap.next_q,
                bootstrap.bonus,
                self._value.munchausen_temperature,
            )
        selector = self._selector(online, bootstrap)
        return distributional.quantile_targets(returns, discounts, bootstrap.next_outputs, selector)


class ImplicitQuantiles(FixedQuantiles):
    """IQN (Dabney et al. 2018, arXiv:1806.06923) and Munchausen IQN (arXiv:2007.14430)."""

    def _online(self, online: Pass) -> tuple[tf.Tensor, tf.Tensor]:
        seed = derive(online.seed, Purpose.ONLINE)
        taus = self._taus(online.features, self._value.num_quantiles, seed)  # [K, N]
        return self._network.outputs(online.parameters, online.features, seed, taus), taus

    def _outputs(self, parameters: Parameters, features: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        taus = self._taus(features, self._value.num_target_quantiles, seed)  # [K, N']
        return self._network.outputs(parameters, features, seed, taus)

    def _q_values(
        self,
        parameters: Parameters,
        features: tf.Tensor,
        seed: tf.Tensor,
        outputs: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """At the `num_policy_quantiles` fractions that acting chooses by.

        An action that were chosen by its target's own samples would be the one whose samples are
        too high: eq. 3 of Dabney et al. 2018 draws others.
        """
        return self._network.q_values(self._network.outputs(parameters, features, seed))

    def _taus(self, features: tf.Tensor, count: int, seed: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_uniform([features.shape[0], count], seed)
