"""Seeds derived from one: reproducible, and unlike each other however they are derived."""

import numpy as np
import tensorflow as tf

from ps_dqn.seeds import Purpose, derive


def pair(seed: tf.Tensor) -> tuple[int, int]:
    first, second = seed.numpy().tolist()
    return first, second


def test_derived_as_murmurhash_finishes() -> None:
    def finish(word: int) -> int:
        word ^= word >> 16
        word = word * 0x85EBCA6B % 2**32
        word ^= word >> 13
        word = word * 0xC2B2AE35 % 2**32
        return word ^ word >> 16

    words = [finish((word + 7 * 0x9E3779B9) % 2**32) for word in (12, 2**32 - 5)]
    expected = tuple(np.array(words, np.uint32).view(np.int32).tolist())
    assert pair(derive(tf.constant([12, -5]), 7)) == expected


def test_derived_seeds_differ_by_purpose_and_seed() -> None:
    seeds = [tf.constant(each) for each in ([3, 4], [4, 3], [2**31 - 1, 5])]
    derived = [pair(derive(seed, purpose)) for seed in seeds for purpose in Purpose]
    assert len(set(derived)) == len(derived)
    assert derive(seeds[0], Purpose.TARGET).dtype == tf.int32
    counted = derive(seeds[0], Purpose.UPDATES + tf.constant(3))
    assert pair(counted) == pair(derive(seeds[0], Purpose.UPDATES + 3))
    assert pair(counted) == pair(derive(seeds[0], tf.constant(2**29 + 3)))


def test_chains_of_purposes_do_not_meet() -> None:
    seed = tf.constant([1, 2])
    found = [pair(derive(derive(seed, i), p)) for i in range(1, 101) for p in range(1, 5)]
    found += [pair(derive(seed, i)) for i in range(1, 101)] + [pair(seed)]
    assert len(set(found)) == len(found)
    # The two words of a seed do not follow each other either.
    assert len({first - second for first, second in found}) > 0.99 * len(found)


def test_compiled_and_not_are_the_same() -> None:
    compiled = tf.function(derive, jit_compile=True, autograph=False)
    assert pair(compiled(tf.constant([3, 4]), tf.constant(9))) == pair(derive([3, 4], 9))
