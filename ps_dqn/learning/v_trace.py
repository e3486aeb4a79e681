"""What states are worth by what came after them, whoever acted (IMPALA).

Espeholt et al. 2018, arXiv:1802.01561. Shapes: T steps of E environments.
"""

from typing import NamedTuple

import tensorflow as tf

from ps_dqn.learning.targets import along_traces


class Judged(NamedTuple):
    """What steps are learned from, without gradient."""

    returns: tf.Tensor  # what the value of the state is moved towards, float32 [...]
    advantages: tf.Tensor  # how much better the action was than the policy's mean, float32 [...]


def v_trace(
    rewards: tf.Tensor,  # [T, E]
    discounts: tf.Tensor,  # [T, E]
    values: tf.Tensor,  # [T, E]
    next_values: tf.Tensor,  # [T, E]
    continues: tf.Tensor,  # [T, E]
    lam: float,
    rhos: tf.Tensor | float = 1.0,
    traces: tf.Tensor | float = 1.0,
) -> Judged:
    """v_t = V_t + δ_t + d_t g_t λ c_t (v_{t+1} - V_{t+1}), where δ_t = ρ_t (r_t + d_t V'_t - V_t).

    The advantage is q_t - V_t with q_t = r_t + d_t (V'_t + g_t λ (v_{t+1} - V_{t+1})). With ρ and c
    of 1 v and q are the λ-return: with λ = 1 the n-step return of A3C (Mnih et al. 2016,
    arXiv:1602.01783), with other λ the generalised advantage (Schulman et al. 2016,
    arXiv:1506.02438).

    Args:
        rewards: r_t, float32 [T, E].
        discounts: d_t = γ, and 0 where step t terminated its episode, float32 [T, E].
        values: V_t of the state acted in, float32 [T, E].
        next_values: V'_t of the state after it, which at a truncation is the episode's final one.
        continues: g_t, 1 where step t + 1 of the rollout continues the episode of step t and else
            0, float32 [T, E]. The last row counts as 0: nothing follows it.
        lam: λ, between 0 and 1.
        rhos: ρ_t, how much likelier the policy makes the action than who acted did, up to a limit,
            float32 [T, E].
        traces: c_t, likewise with a limit of its own, float32 [T, E].

    Returns:
        Returns v and advantages, float32 [T, E] each.
    """
    errors = rhos * (rewards + discounts * next_values - values)
    corrections = along_traces(errors, discounts, errors, lam * continues * traces)  # v - V
    following = tf.concat([corrections[1:], tf.zeros_like(corrections[:1])], axis=0)
    q_values = rewards + discounts * (next_values + lam * continues * following)
    return Judged(tf.stop_gradient(values + corrections), tf.stop_gradient(q_values - values))
