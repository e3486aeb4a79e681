"""Images that are shifted at random before they are learned from (DrQ).

Yarats et al. 2021, arXiv:2004.13649: what a network says of an image must not hang on single
pixels, and a minibatch is then never seen twice.

Shapes: N items, each an observation or a sequence of L of them; M minibatches of B items; T steps
of E environments. Observations have height H and
width W where `specification.image_axes` says; the frames of a stack are shifted alike.
"""

import math

import tensorflow as tf

from ps_dqn.environments import specification
from ps_dqn.replay.batch import Batch, Rollout, Sequences
from ps_dqn.seeds import Purpose, derive


def shifted_batch(batch: Batch, most: int, seed: tf.Tensor) -> Batch:
    """The batch with every image shifted; those of a sequence all by the same.

    Args:
        batch: whose observations are images, [M, B, …], [M, B, L, …] or [T, E, …].
        most: pixels that an image may be shifted by, each way.
        seed: of the push, int32 [2].
    """
    if isinstance(batch, Rollout) and batch.states.shape[1]:
        return _shifted_sequences(batch, most, derive(seed, Purpose.SHIFTS))
    is_sequence = isinstance(batch, Sequences)
    fields = {"observations": Purpose.SHIFTS, "next_observations": Purpose.NEXT_SHIFTS}
    moved = {}
    for name, purpose in fields.items():
        if name in batch._fields:
            images = getattr(batch, name)
            length = images.shape[2] if is_sequence else 1
            image = images.shape[3 if is_sequence else 2 :]
            shape = [math.prod(images.shape[:2]), length, *image]
            found = shifted(tf.reshape(images, shape), most, derive(seed, purpose))
            moved[name] = tf.reshape(found, images.shape)
    return batch._replace(**moved)


def _shifted_sequences(rollout: Rollout, most: int, seed: tf.Tensor) -> Rollout:
    """A recurrent network's, which sees the images of an environment one after the other."""
    both = tf.concat([rollout.observations, rollout.next_observations], axis=0)  # [2T, E, …]
    swap = [1, 0, *range(2, both.shape.rank)]
    found = tf.transpose(shifted(tf.transpose(both, swap), most, seed), swap)
    observations, following = tf.split(found, 2)
    return rollout._replace(observations=observations, next_observations=following)


def shifted(images: tf.Tensor, most: int, seed: tf.Tensor) -> tf.Tensor:
    """Each shifted by its own whole number of pixels, evenly drawn; edges are repeated.

    Args:
        images: [N, L, …], the L of each alike.
        most: pixels, each way.
        seed: int32 [2].

    Returns:
        The same shape and dtype.
    """
    axes = specification.image_axes(tuple(images.shape[2:]))
    assert axes is not None, "checked before the run"
    vertical, horizontal = (2 + axis for axis in axes)
    number, height, width = (images.shape[axis] for axis in (0, vertical, horizontal))
    by = tf.random.stateless_uniform([2, number, 1], seed, -most, most + 1, tf.int32)
    rows = tf.clip_by_value(tf.range(height) + by[0], 0, height - 1)  # [N, H]
    columns = tf.clip_by_value(tf.range(width) + by[1], 0, width - 1)  # [N, W]
    images = tf.gather(images, rows, axis=vertical, batch_dims=1)
    return tf.gather(images, columns, axis=horizontal, batch_dims=1)
