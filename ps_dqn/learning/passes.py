"""What an objective is asked with, and what it answers.

Shapes: K transitions, F features, A actions, N atoms or quantiles.
"""

from typing import NamedTuple

import tensorflow as tf

from ps_dqn.networks.network import Parameters


class Pass(NamedTuple):
    """One network, and what it makes of the observations of K transitions."""

    parameters: Parameters  # float32 [P]
    features: tf.Tensor  # of the states acted in, [K, F]
    next_features: tf.Tensor | None  # of the bootstrap states, [K, F]; None where not needed
    seed: tf.Tensor  # of noise and random quantiles, int32 [2]
    masks: tf.Tensor | None = None  # of the states acted in, bool [K, A]; see `only_allowed`
    next_masks: tf.Tensor | None = None  # of the bootstrap states, likewise


class Outcomes(NamedTuple):
    """What replay says of K transitions."""

    actions: tf.Tensor  # int32 [K]
    returns: tf.Tensor  # float32 [K]
    discounts: tf.Tensor  # float32 [K]
    demonstrated: tf.Tensor | None = None  # 1 where others acted, float32 [K]; None: not known
    # 1 where the next step continues the episode, float32 [B, T] of sequences; None: no traces.
    continues: tf.Tensor | None = None


class Bootstrap(NamedTuple):
    """What the target network says of K transitions; it does not depend on the online one."""

    next_outputs: tf.Tensor  # at the bootstrap state, [K, A] or [K, A, N]
    next_q: tf.Tensor  # what it chooses by there, [K, A]; zeros where the online network chooses
    bonus: tf.Tensor  # Munchausen's, float32 [K]; zeros without


class Losses(NamedTuple):
    """How far the online network is from its targets."""

    loss: tf.Tensor  # float32 [K]
    error: tf.Tensor  # what priorities are made of, at least 0, float32 [K]
    q_value: tf.Tensor  # of the action taken, float32 [K]
