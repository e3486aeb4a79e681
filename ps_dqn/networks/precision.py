"""In which numbers layers compute: Keras's mixed policies (Micikevicius et al. 2018).

arXiv:1710.03740. Variables are float32, and are rounded where a layer reads them; what a layer is
given is rounded likewise. Layers that have parts which must not be rounded take what they are given
as it is, and round by themselves what goes into their products.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

# Of layers whose outputs are read as numbers: values, logits, what a memory keeps.
FULL = "float32"
_POLICIES = {
    "float32": FULL,
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
    # Layers of their own: see `quantized`. What is between them is float32.
    "int8": FULL,
}


@contextlib.contextmanager
def computing(precision: str) -> Iterator[None]:
    """Layers made inside compute in these numbers, as `build` names them, or in what they say."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[precision])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


class Unrounded(keras.layers.Layer):
    """A layer that reads its inputs and weights in all their digits, and rounds by itself."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, autocast=False, **kwargs)

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """Keras's, of a weight that is not rounded where it is read."""
        return super().add_weight(*args, autocast=False, **kwargs)


def product(x: tf.Tensor, kernel: tf.Tensor, dtype: str) -> tf.Tensor:
    """Of rows [B, F] and a kernel [F, U], multiplied in numbers of a dtype, float32 [B, U]."""
    found = tf.matmul(tf.cast(x, dtype), tf.cast(kernel, dtype))
    return tf.cast(found, tf.float32)
