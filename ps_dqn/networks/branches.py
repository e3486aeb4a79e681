"""Actions of several parts, of which each has values of its own (Tavakoli et al. 2018).

arXiv:1711.08946. An action's number counts all combinations, the last part varying fastest.

Shapes: K rows, D parts with c_1 … c_D choices, C = Σ c_d of them in all.
"""

import itertools
import math

import tensorflow as tf


def split(values: tf.Tensor, counts: tuple[int, ...]) -> list[tf.Tensor]:
    """Values of all choices [K, C, …] as those of each part, D of [K, c_d, …]."""
    ends = list(itertools.accumulate(counts))
    return [values[:, end - count : end] for end, count in zip(ends, counts, strict=True)]


def choices(actions: tf.Tensor, counts: tuple[int, ...]) -> list[tf.Tensor]:
    """Of numbers of actions, int32 [K], the choice of each part: D of int32 [K]."""
    found = []
    for part, count in enumerate(counts):
        period = math.prod(counts[part + 1 :])  # numbers until the next choice
        found.append(actions // period % count)
    return found


def greedy(q_values: tf.Tensor, counts: tuple[int, ...]) -> tf.Tensor:
    """The number of the action whose parts are the best ones, int32 [K], from [K, C]."""
    number = tf.zeros(tf.shape(q_values)[:1], tf.int32)
    for part in split(q_values, counts):
        number = number * part.shape[1] + tf.argmax(part, -1, output_type=tf.int32)
    return number
