"""An LSTM along sequences.

Shapes: B sequences of L steps, F features, U units, S numbers of recurrent state.
"""

import tensorflow as tf

from ps_dqn.networks.lstm import LSTM


def states(
    lstm: LSTM,
    features: tf.Tensor,
    starts: tf.Tensor,
    actions: tf.Tensor,
    rewards: tf.Tensor,
    state: tf.Tensor,
) -> tf.Tensor:
    """Its state after every step, whose first U numbers are its output there.

    Args:
        lstm: its weights are those that the caller holds.
        features: [B, L, F], L known when traced.
        starts: which steps begin an episode, with a state of zeros, bool [B, L].
        actions: what was done in each step, int32 [B, L]; the next one reads it.
        rewards: what that paid, float32 [B, L].
        state: before the first step, float32 [B, S].

    Returns:
        float32 [B, L, S].
    """
    memory, last = tf.split(state, [2 * lstm.units, 2], axis=-1)
    steps = tf.stack([tf.cast(actions + 1, tf.float32), rewards], axis=-1)  # [B, L, 2]
    before = tf.concat([last[:, tf.newaxis], steps[:, :-1]], axis=1)
    before = tf.where(starts[:, :, tf.newaxis], 0.0, before)
    flat = (tf.reshape(each, [-1, each.shape[-1]]) for each in (features, before))
    projected = tf.reshape(lstm.project(*flat), [-1, features.shape[1], 4 * lstm.units])
    return tf.concat([_memories(lstm, projected, starts, memory), steps], axis=-1)


def _memories(lstm: LSTM, projected: tf.Tensor, starts: tf.Tensor, memory: tf.Tensor) -> tf.Tensor:
    """Its memory after every step, from [B, L, 4U] and a memory [B, 2U] to [B, L, 2U]."""
    length = projected.shape[1]
    # A loop compiles in a time that does not depend on L, and reads and writes of arrays have
    # gradients that touch one step only.
    inputs = tf.TensorArray(tf.float32, length).unstack(tf.transpose(projected, [1, 0, 2]))
    along = tf.TensorArray(tf.float32, length, element_shape=memory.shape)
    continues = tf.transpose(1.0 - tf.cast(starts, tf.float32))[:, :, None]  # [L, B, 1]

    def step(i: tf.Tensor, memory: tf.Tensor, along: tf.TensorArray) -> tuple:
        memory = lstm.advance(inputs.read(i), memory * continues[i])
        return i + 1, memory, along.write(i, memory)

    _, _, along = tf.while_loop(
        lambda i, *_: i < length,
        step,
        (tf.constant(0), memory, along),
        maximum_iterations=length,  # XLA needs it to differentiate the loop
    )
    return tf.transpose(along.stack(), [1, 0, 2])
