"""Targets and losses of networks that give each action's return as a distribution.

Categorical networks (C51) give the probabilities of N fixed returns, the atoms of a support.
Quantile networks (QR-DQN, IQN) give N returns for fractions τ between 0 and 1.

Shapes: B transitions, A actions, N atoms or quantiles, N' quantiles of a target.
"""

import tensorflow as tf


def chosen(outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """The distribution of one action for each state.

    A product with one-hot rows, for its dense gradient.

    Args:
        outputs: float32 [B, A, N].
        actions: int32 [B].

    Returns:
        float32 [B, N].
    """
    one_hot = tf.one_hot(actions, outputs.shape[1], dtype=outputs.dtype)  # [B, A]
    return tf.reduce_sum(outputs * one_hot[:, :, tf.newaxis], axis=1)


def categorical_projection(
    targets_atoms: tf.Tensor,  # [B, N]
    probabilities: tf.Tensor,  # [B, N]
    support: tf.Tensor,  # [N]
) -> tf.Tensor:
    """Moves a distribution onto the support: each atom's mass goes to its two neighbours there.

    Bellemare et al. 2017, arXiv:1707.06887. Every atom of the support weighs every moved atom with
    a triangle one spacing wide, which is zero for all but the neighbours: dense, without scatter.

    Args:
        targets_atoms: where the masses are now, R + D z; outside of the support they count as at
            its ends. float32 [B, N].
        probabilities: the masses, float32 [B, N].
        support: atoms at equal distances, float32 [N].

    Returns:
        Probabilities of the support's atoms, of the same sum, float32 [B, N].
    """
    last = support.shape[0] - 1
    spacing = (support[-1] - support[0]) / last
    # Counted in spacings, so that the two weights of a mass add up to 1 but for one rounding.
    positions = tf.clip_by_value((targets_atoms - support[0]) / spacing, 0.0, float(last))  # [B, N]
    atoms = tf.range(last + 1, dtype=targets_atoms.dtype)  # [N]
    distances = tf.abs(positions[:, tf.newaxis, :] - atoms[:, tf.newaxis])  # [B, N, N]
    weights = tf.maximum(1.0 - distances, 0.0)  # [B, N, N]
    return tf.reduce_sum(weights * probabilities[:, tf.newaxis, :], axis=-1)


def categorical_targets(
    rewards: tf.Tensor,  # [B]
    discounts: tf.Tensor,  # [B]
    next_logits: tf.Tensor,  # [B, A, N]
    selector: tf.Tensor,  # [B, A]
    support: tf.Tensor,  # [N]
) -> tf.Tensor:
    """The distribution of R + D · Z(s', a*) on the support (C51, arXiv:1707.06887).

    Args:
        rewards: n-step returns up to the bootstrap, float32 [B].
        discounts: γ^n at the bootstrap state, 0 where the episode terminated, float32 [B].
        next_logits: target network's outputs at the bootstrap state, float32 [B, A, N].
        selector: values whose greedy action is a*: the target network's means, or the online
            network's for Double DQN. float32 [B, A].
        support: the atoms z, float32 [N].

    Returns:
        Probabilities without gradient, float32 [B, N].
    """
    greedy = tf.argmax(selector, axis=-1, output_type=tf.int32)  # [B]
    probabilities = tf.nn.softmax(chosen(next_logits, greedy), axis=-1)  # [B, N]
    moved = rewards[:, tf.newaxis] + discounts[:, tf.newaxis] * support  # [B, N]
    return tf.stop_gradient(categorical_projection(moved, probabilities, support))


def categorical_loss(logits: tf.Tensor, target_probabilities: tf.Tensor) -> tf.Tensor:
    """Cross-entropy -Σ_i m_i ln p_i of a target m and p = softmax(logits) (arXiv:1707.06887).

    Args:
        logits: the chosen action's, float32 [B, N].
        target_probabilities: `categorical_targets`, float32 [B, N].

    Returns:
        float32 [B].
    """
    return tf.nn.softmax_cross_entropy_with_logits(target_probabilities, logits)


def gaussian_histogram(values: tf.Tensor, ends: tf.Tensor, sigma: float) -> tf.Tensor:
    """How much of a Gaussian around each value falls into each bin (HL-Gauss).

    Imani and White 2018, arXiv:1806.04613; for values of actions Farebrother et al. 2024,
    arXiv:2403.03950. What falls outside of the bins is shared out among them.

    Args:
        values: its means; those outside of the bins count as at their ends. float32 [B].
        ends: of the bins, at equal distances, float32 [N + 1].
        sigma: its standard deviation, above 0, in widths of a bin.

    Returns:
        Probabilities of the bins, float32 [B, N].
    """
    width = (ends[-1] - ends[0]) / (ends.shape[0] - 1)
    inside = tf.clip_by_value(values, ends[0], ends[-1])[:, tf.newaxis]  # [B, 1]
    below = tf.math.erf((ends - inside) / (2.0**0.5 * sigma * width))  # [B, N + 1]
    return (below[:, 1:] - below[:, :-1]) / (below[:, -1:] - below[:, :1])


def entropy(probabilities: tf.Tensor) -> tf.Tensor:
    """-Σ_i m_i ln m_i, the least that `categorical_loss` can be for a target m.

    Args:
        probabilities: float32 [B, N].

    Returns:
        float32 [B].
    """
    return -tf.reduce_sum(tf.math.xlogy(probabilities, probabilities), axis=-1)


def quantile_huber(
    quantiles: tf.Tensor,  # [B, N]
    targets: tf.Tensor,  # [B, N']
    taus: tf.Tensor,  # [B, N] or [N]
    kappa: float,
) -> tf.Tensor:
    """Quantile regression with Huber's loss: Σ_i mean_j |τ_i - 1{u_ij < 0}| L_κ(u_ij) / κ.

    u_ij is target j less quantile i. QR-DQN (Dabney et al. 2018, arXiv:1710.10044), with the
    division by κ that IQN brought (arXiv:1806.06923).

    Args:
        quantiles: returns at the fractions `taus` for the chosen action, float32 [B, N].
        targets: samples of the return they are moved towards, float32 [B, N'].
        taus: fractions between 0 and 1; of each transition [B, N] or the same for all [N].
        kappa: up to where the loss is quadratic, above 0.

    Returns:
        float32 [B].
    """
    errors = targets[:, tf.newaxis, :] - quantiles[:, :, tf.newaxis]  # [B, N, N']
    size = tf.abs(errors)
    near = tf.minimum(size, kappa)
    losses = near * (size - 0.5 * near) / kappa  # u²/2κ, then |u| - κ/2
    below = tf.cast(errors < 0.0, errors.dtype)  # [B, N, N']
    weights = tf.abs(taus[..., tf.newaxis] - below)  # [B, N, N']
    return tf.reduce_sum(tf.reduce_mean(weights * losses, axis=-1), axis=-1)


def quantile_targets(
    rewards: tf.Tensor,  # [B]
    discounts: tf.Tensor,  # [B]
    next_quantiles: tf.Tensor,  # [B, A, N']
    selector: tf.Tensor,  # [B, A]
) -> tf.Tensor:
    """R + D z_j(s', a*) for every quantile j (QR-DQN arXiv:1710.10044, IQN arXiv:1806.06923).

    Args:
        rewards: n-step returns up to the bootstrap, float32 [B].
        discounts: γ^n at the bootstrap state, 0 where the episode terminated, float32 [B].
        next_quantiles: target network's outputs at the bootstrap state, float32 [B, A, N'].
        selector: values whose greedy action is a*: the target network's means, or the online
            network's for Double DQN. float32 [B, A].

    Returns:
        Targets without gradient, float32 [B, N'].
    """
    greedy = tf.argmax(selector, axis=-1, output_type=tf.int32)  # [B]
    bootstrap = chosen(next_quantiles, greedy)  # [B, N']
    return tf.stop_gradient(rewards[:, tf.newaxis] + discounts[:, tf.newaxis] * bootstrap)


def munchausen_quantile_targets(
    rewards: tf.Tensor,  # [B]
    discounts: tf.Tensor,  # [B]
    next_quantiles: tf.Tensor,  # [B, A, N']
    next_q: tf.Tensor,  # [B, A]
    bonus: tf.Tensor,  # [B]
    temperature: float,
) -> tf.Tensor:
    """R + bonus + D Σ_a π(a) (z_j(a) - τ ln π(a)) for every quantile j, π = softmax(Q / τ).

    Munchausen IQN (Vieillard et al. 2020, arXiv:2007.14430).

    Args:
        rewards: as for `quantile_targets`, float32 [B].
        discounts: as for `quantile_targets`, float32 [B].
        next_quantiles: target network's outputs z at the bootstrap state, float32 [B, A, N'].
        next_q: target network's means Q there, float32 [B, A].
        bonus: `targets.munchausen_bonus` of the transition, float32 [B].
        temperature: τ of the softmax policy, above 0.

    Returns:
        Targets without gradient, float32 [B, N'].
    """
    log_policy = tf.nn.log_softmax(next_q / temperature, axis=-1)[:, :, tf.newaxis]  # [B, A, 1]
    soft = tf.exp(log_policy) * (next_quantiles - temperature * log_policy)  # [B, A, N']
    bootstrap = tf.reduce_sum(soft, axis=1)  # [B, N']
    immediate = (rewards + bonus)[:, tf.newaxis]  # [B, 1]
    return tf.stop_gradient(immediate + discounts[:, tf.newaxis] * bootstrap)
