"""λ-returns of whole rollouts, the targets of learning without a replay.

Shapes: T steps, E environments.
"""

import tensorflow as tf


def lambda_returns(
    rewards: tf.Tensor,  # [T, E]
    discounts: tf.Tensor,  # [T, E]
    next_values: tf.Tensor,  # [T, E]
    goes_on: tf.Tensor,  # [T, E]
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
        goes_on: g_t, 1 where step t + 1 of the rollout continues the episode of step t and else
            0, float32 [T, E]. The last row counts as 0: nothing follows it.
        lam: λ, between 0 and 1.

    Returns:
        Targets without gradient, float32 [T, E].
    """
    length = rewards.shape[0]
    traces = lam * goes_on  # [T, E]
    # All but the recursion for all steps at once: G_t = fixed_t + carried_t G_{t+1}.
    fixed = rewards + discounts * (1.0 - traces) * next_values  # [T, E]
    carried = discounts * traces  # [T, E]

    def step(i, following, returns):  # type: ignore[no-untyped-def]
        t = length - 1 - i
        current = fixed[t] + carried[t] * following  # [E]
        return i + 1, current, returns.write(t, current)

    # Beyond the rollout's end the return is its value, whatever the last trace says.
    returns = tf.TensorArray(rewards.dtype, length, element_shape=rewards.shape[1:])
    *_, returns = tf.while_loop(
        lambda i, *_: i < length,
        step,
        (tf.constant(0), next_values[-1], returns),
        maximum_iterations=length,
    )
    return tf.stop_gradient(returns.stack())
