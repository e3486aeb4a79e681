"""Seeds for many purposes from one, inside the update loop."""

import enum

import tensorflow as tf

_GOLDEN, _FIRST, _SECOND = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35


class Purpose(enum.IntEnum):
    """What random numbers are for: what `derive` is given.

    Acting and the updates take a seed for each step and each update, counted from these numbers.
    A policy's choice takes its own from acting's, of which noisy layers have the first few hundred.
    The others are taken from an update's own seed; the target's from the push's where one pass
    serves all its updates, and those of shifted images. A network's encoder takes its own from that
    of the network.
    """

    ONLINE = 1
    TARGET = 2
    SELECTOR = 3
    ENCODER = 4
    SHIFTS = 5
    NEXT_SHIFTS = 6
    POLICY = 1 << 28
    UPDATES = 1 << 29
    ACTING = 1 << 30


def derive(seed: tf.Tensor, purpose: int | tf.Tensor) -> tf.Tensor:
    """A seed for one purpose, unrelated to those for others and to those derived from them.

    MurmurHash3's finalizer over seed and purpose: sums would meet each other, and TensorFlow's own
    `stateless_fold_in` takes XLA a quarter of a second to compile each time.

    Args:
        seed: int32 [2].
        purpose: which, a `Purpose` or counted from one, int32 [].

    Returns:
        int32 [2].
    """
    counted = tf.bitcast(seed, tf.uint32) + tf.cast(purpose, tf.uint32) * _word(_GOLDEN)
    return tf.bitcast(_mix(counted), tf.int32)


def _mix(words: tf.Tensor) -> tf.Tensor:
    """Every bit of a word depends on all of it."""
    words = tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, _word(16)))
    words *= _word(_FIRST)
    words = tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, _word(13)))
    words *= _word(_SECOND)
    return tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, _word(16)))


def _word(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint32)
