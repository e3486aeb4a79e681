"""What an encoder is given: observations as they are, or those of several parts taken apart.

Shapes: B rows, k stacked frames, where there are any.
"""

from typing import TypeAlias

import keras
import tensorflow as tf
from keras import ops

from ps_dqn.environments import EnvironmentSpec
from ps_dqn.environments.parts import Part

# One tensor; or one for each part, by its name.
Given: TypeAlias = tf.Tensor | dict[str, tf.Tensor]


def given(observations: tf.Tensor, environment: EnvironmentSpec) -> Given:
    """Observations as an encoder takes them.

    Args:
        observations: [B, …] as the environment's spec says; with parts uint8 [B, bytes] or
            [B, k, bytes].
        environment: the spec.

    Returns:
        The observations; or each part, [B, …] or [B, k, …], in its own dtype. The only part, if it
        has no name, comes without a dictionary.
    """
    parts = environment.parts
    if not parts:
        return observations
    pieces = tf.split(observations, [part.nbytes for part in parts], axis=-1)
    named = {
        part.name: _from_bytes(piece, part, environment.frames)
        for part, piece in zip(parts, pieces, strict=True)
    }
    return bare(named)


def as_keras(environment: EnvironmentSpec) -> Given:
    """Keras inputs of what `given` returns."""
    if not environment.parts:
        shape, dtype = environment.observation_shape, environment.observation_dtype
        return keras.Input(shape, dtype=dtype.name)
    return bare(
        {
            part.name: keras.Input(
                (*environment.frames, *part.shape), dtype=part.dtype.name, name=part.name or None
            )
            for part in environment.parts
        }
    )


def by_name(parts: Given) -> dict[str, tf.Tensor]:
    """Of what `given` returned for parts, each by its name."""
    return parts if isinstance(parts, dict) else {"": parts}


def bare(named: dict[str, tf.Tensor]) -> Given:
    """Parts by name; the only one, if it has none, alone."""
    return named[""] if list(named) == [""] else named


def read(part: Part, x: tf.Tensor) -> tf.Tensor:
    """A part as numbers: quantities as they are, numbers of things one-hot, float32.

    Args:
        part: which.
        x: its values, [B, …] or [B, k, …].

    Returns:
        [B, *read_shape] or [B, k, *read_shape].
    """
    if not part.categories:
        return ops.cast(x, "float32")
    numbers = [x[..., i] for i in range(len(part.categories))] if part.shape else [x]
    pairs = zip(numbers, part.categories, strict=True)
    return ops.concatenate([ops.one_hot(number, count) for number, count in pairs], axis=-1)


def _from_bytes(piece: tf.Tensor, part: Part, frames: tuple[int, ...]) -> tf.Tensor:
    shape = [-1, *frames, *part.shape]
    if part.dtype.itemsize == 1:
        return tf.cast(tf.reshape(piece, shape), part.dtype)
    return tf.bitcast(tf.reshape(piece, [*shape, part.dtype.itemsize]), part.dtype)
