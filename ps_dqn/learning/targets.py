"""What values are moved towards, as pure functions.

Shapes: B transitions, A actions; of rollouts T steps, E environments.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from ps_dqn.learning import losses


def td_targets(
    rewards: tf.Tensor,  # [B]
    discounts: tf.Tensor,  # [B]
    next_q_target: tf.Tensor,  # [B, A]
    selector: tf.Tensor,  # [B, A]
) -> tf.Tensor:
    """The value each chosen action is moved towards: R + D · Q_target(s', a*).

    With the online network's values as the selector: Double DQN (van Hasselt et al. 2016,
    arXiv:1509.06461). With the target network's: DQN (Mnih et al. 2015).

    Args:
        rewards: n-step returns R = Σ γ^k r_k up to the bootstrap, float32 [B].
        discounts: γ^n at the bootstrap state, 0 where the episode terminated, float32 [B].
        next_q_target: target network's values at the bootstrap state, float32 [B, A].
        selector: values there whose greedy action is a*, float32 [B, A].

    Returns:
        Targets without gradient, float32 [B].
    """
    bootstrap = greedy_values(next_q_target, selector)  # [B]
    return tf.stop_gradient(rewards + discounts * bootstrap)


def expected_sarsa_targets(
    rewards: tf.Tensor,  # [B]
    discounts: tf.Tensor,  # [B]
    next_q_target: tf.Tensor,  # [B, A]
    selector: tf.Tensor,  # [B, A]
    epsilon: tf.Tensor,  # []
    masks: tf.Tensor | None = None,  # [B, A]
) -> tf.Tensor:
    """R + D · Σ_a π(a|s') Q_target(s', a) of the ε-greedy policy π that acts.

    Expected SARSA (van Seijen et al. 2009, doi:10.1109/ADPRL.2009.4927542): the greedy action a*
    has probability 1 - ε, and ε is shared by all actions, a* among them. With ε = 0 it is
    `td_targets`. Of n steps, those before the bootstrap are taken as they were made (Sutton and
    Barto 2018, section 7.2).

    Args:
        rewards: n-step returns R = Σ γ^k r_k up to the bootstrap, float32 [B].
        discounts: γ^n at the bootstrap state, 0 where the episode terminated, float32 [B].
        next_q_target: target network's values at the bootstrap state, float32 [B, A].
        selector: values there whose greedy action is a*, float32 [B, A].
        epsilon: ε, between 0 and 1, float32 [].
        masks: of the actions that ε is shared by, as for `heads.only_allowed`.

    Returns:
        Targets without gradient, float32 [B].
    """
    greedy = greedy_values(next_q_target, selector)  # [B]
    if masks is None or not masks.shape[-1]:
        uniform = tf.reduce_mean(next_q_target, axis=-1)  # [B]
    else:
        allowed = tf.cast(masks, tf.float32)
        total = tf.reduce_sum(next_q_target * allowed, axis=-1)
        uniform = total / tf.reduce_sum(allowed, axis=-1)
    bootstrap = (1.0 - epsilon) * greedy + epsilon * uniform
    return tf.stop_gradient(rewards + discounts * bootstrap)


def greedy_values(q_values: tf.Tensor, selector: tf.Tensor) -> tf.Tensor:
    """Q(s, a*) of the action a* that is greedy by the selector.

    Args:
        q_values: float32 [B, A].
        selector: values whose greedy action is a*, float32 [B, A].

    Returns:
        float32 [B].
    """
    return losses.chosen_values(q_values, tf.argmax(selector, axis=-1, output_type=tf.int32))


def log_policy(q_values: tf.Tensor, temperature: float) -> tf.Tensor:
    """The logarithm ln π(a|s) of the softmax policy π ∝ exp(Q / τ), without overflow.

    Args:
        q_values: float32 [B, A].
        temperature: τ, above 0; towards 0 the policy becomes greedy.

    Returns:
        float32 [B, A], at most 0.
    """
    return tf.nn.log_softmax(q_values / temperature, axis=-1)


def soft_value(q_values: tf.Tensor, temperature: float) -> tf.Tensor:
    """Σ_a π(a) (Q(a) - τ ln π(a)) of π = softmax(Q / τ): the softmax policy's value and entropy.

    Written as the τ ln Σ_a exp(Q(a) / τ) it equals.

    Args:
        q_values: float32 [B, A].
        temperature: τ, above 0.

    Returns:
        float32 [B], at least max_a Q and at most τ ln A above it.
    """
    return temperature * tf.reduce_logsumexp(q_values / temperature, axis=-1)


def munchausen_bonus(
    q_target: tf.Tensor,  # [B, A]
    actions: tf.Tensor,  # [B]
    alpha: float,
    temperature: float,
    clip: float,
) -> tf.Tensor:
    """α [τ ln π(a|s)] clipped to [clip, 0], which Munchausen DQN adds to the reward.

    Vieillard et al. 2020, arXiv:2007.14430; they use α 0.9, τ 0.03 and a clip of -1.

    Args:
        q_target: target network's values at the states acted in, float32 [B, A].
        actions: what was done there, int32 [B].
        alpha: α, the bonus's weight, between 0 and 1.
        temperature: τ of the softmax policy, above 0.
        clip: the lowest τ ln π(a|s), below 0.

    Returns:
        float32 [B], between α · clip and 0, without gradient.
    """
    chosen = losses.chosen_values(log_policy(q_target, temperature), actions)  # [B]
    return tf.stop_gradient(alpha * tf.clip_by_value(temperature * chosen, clip, 0.0))


def munchausen_targets(
    rewards: tf.Tensor,  # [B]
    discounts: tf.Tensor,  # [B]
    next_q_target: tf.Tensor,  # [B, A]
    bonus: tf.Tensor,  # [B]
    temperature: float,
) -> tf.Tensor:
    """R + bonus + D Σ_a π(a) (Q(a) - τ ln π(a)), π = softmax(Q / τ) of the target network.

    Munchausen DQN (Vieillard et al. 2020, arXiv:2007.14430); without a bonus, Soft DQN.

    Args:
        rewards: as for `td_targets`, float32 [B].
        discounts: as for `td_targets`, float32 [B].
        next_q_target: target network's values at the bootstrap state, float32 [B, A].
        bonus: `munchausen_bonus` of the transition, float32 [B].
        temperature: τ, above 0.

    Returns:
        Targets without gradient, float32 [B].
    """
    bootstrap = soft_value(next_q_target, temperature)  # [B]
    return tf.stop_gradient(rewards + bonus + discounts * bootstrap)


def lambda_returns(
    rewards: tf.Tensor,  # [T, E]
    discounts: tf.Tensor,  # [T, E]
    next_values: tf.Tensor,  # [T, E]
    continues: tf.Tensor,  # [T, E]
    lam: float,
) -> tf.Tensor:
    """G_t = r_t + d_t [(1 - λ g_t) v_{t+1} + λ g_t G_{t+1}], from the last step to the first.

    Peng's Q(λ) with greedy values v, over rollouts as they were collected, in the form of Daley
    and Amato 2019 (arXiv:1810.09967) and of PQN (Gallici et al. 2024, arXiv:2407.04811). λ = 0
    gives one-step targets; λ = 1 discounted sums up to a bootstrap at the end.

    Args:
        rewards: r_t, float32 [T, E].
        discounts: d_t = γ, and 0 where step t terminated its episode, float32 [T, E].
        next_values: v_{t+1} = max_a Q of the state after step t, which at a truncation is the
            episode's final one, float32 [T, E].
        continues: g_t, 1 where step t + 1 of the rollout continues the episode of step t and else
            0, float32 [T, E]. The last row counts as 0: nothing follows it.
        lam: λ, between 0 and 1.

    Returns:
        Targets without gradient, float32 [T, E].
    """
    traces = lam * continues  # [T, E]
    one_step = rewards + discounts * next_values
    return along_traces(rewards, discounts, one_step, traces)


def along_traces(
    rewards: tf.Tensor,  # [T, E]
    discounts: tf.Tensor,  # [T, E]
    one_step: tf.Tensor,  # [T, E]
    traces: tf.Tensor,  # [T, E]
) -> tf.Tensor:
    """G_t = r_t + (1 - c_t) (y_t - r_t) + d_t c_t G_{t+1}, from the last step to the first.

    y_t are one-step targets r_t + d_t v_{t+1} of any kind. With c_t = λ where the episode goes on
    this is Peng's Q(λ). With c_t = 0 beside where a_{t+1} is not greedy it is Retrace(λ) of the
    greedy policy π (Munos et al. 2016, arXiv:1606.02647), whose λ min(1, π/μ) is λ or 0 whatever
    policy μ acted.

    Args:
        rewards: r_t, float32 [T, E].
        discounts: d_t = γ, and 0 where step t terminated its episode, float32 [T, E].
        one_step: y_t, float32 [T, E].
        traces: c_t, between 0 and 1; the last row counts as 0. float32 [T, E].

    Returns:
        Targets without gradient, float32 [T, E].
    """
    length = rewards.shape[0]
    # All but the recursion for all steps at once: G_t = fixed_t + carried_t G_{t+1}.
    fixed = rewards + (1.0 - traces) * (one_step - rewards)  # [T, E]
    carried = discounts * traces  # [T, E]

    def step(i, following, returns):  # type: ignore[no-untyped-def]
        t = length - 1 - i
        current = fixed[t] + carried[t] * following  # [E]
        return i + 1, current, returns.write(t, current)

    # Of the last step, whatever its trace says, the one-step target.
    returns = tf.TensorArray(rewards.dtype, length, element_shape=rewards.shape[1:])
    returns = returns.write(length - 1, one_step[-1])
    *_, returns = tf.while_loop(
        lambda i, *_: i < length,
        step,
        (tf.constant(1), one_step[-1], returns),
        maximum_iterations=length,
    )
    return tf.stop_gradient(returns.stack())


def rescale(x: tf.Tensor, epsilon: float = 1e-3) -> tf.Tensor:
    """h(x) = sign(x) (√(|x| + 1) - 1) + εx, which brings returns of all sizes near each other.

    Pohlen et al. 2018, arXiv:1805.11593; R2D2 learns h(R + D h⁻¹(Q)). Multiplied by
    √(|x| + 1) + 1 above and below, so that nothing cancels near zero.

    Args:
        x: values, any shape.
        epsilon: ε, at least 0; above 0 the inverse grows linearly in the end.

    Returns:
        The same shape.
    """
    return x / (tf.sqrt(tf.abs(x) + 1.0) + 1.0) + epsilon * x


def unrescale(x: tf.Tensor, epsilon: float = 1e-3) -> tf.Tensor:
    """h⁻¹, the inverse of `rescale` (Pohlen et al. 2018, arXiv:1805.11593).

    With s = √(|y| + 1) - 1, h(y) = x says εs² + (1 + 2ε)s = |x|, and |y| = s(s + 2). The paper's
    formula is the same root, but loses its digits to cancellation in float32.

    Args:
        x: rescaled values, any shape.
        epsilon: `rescale`'s ε.

    Returns:
        The same shape.
    """
    size = tf.abs(x)
    linear = 1.0 + 2.0 * epsilon
    slope = 2.0 / (linear + tf.sqrt(linear**2 + 4.0 * epsilon * size))  # s / |x|
    return x * slope * (slope * size + 2.0)


# What `--target` may be: a function of `expected_sarsa_targets`' arguments.
TARGETS: Mapping[str, Callable[..., tf.Tensor]] = {
    "greedy": lambda rewards, discounts, next_q, selector, epsilon, masks=None: td_targets(
        rewards, discounts, next_q, selector
    ),
    "expected_sarsa": expected_sarsa_targets,
}
