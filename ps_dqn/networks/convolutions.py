"""What Keras lacks for images, channels last.

Shapes: B images, H height, W width, C channels, U filters.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from ps_dqn.networks import precision

# Squarings of a kernel's Gram matrix: as many as 2 ** this steps of power iteration.
_SQUARINGS = 6


@keras.saving.register_keras_serializable("ps_dqn")
class PatchConvolution(keras.layers.Conv2D):
    """A convolution without stride and padding, as one product with all patches of the image.

    The same numbers as Keras's. For small images; XLA differentiates its own convolution several
    times more slowly on CPUs.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """From images [B, H, W, C] to [B, H - h + 1, W - w + 1, filters]."""
        (height, width), channels = self.kernel_size, inputs.shape[-1]
        rows, columns = inputs.shape[1] - height + 1, inputs.shape[2] - width + 1
        patches = tf.concat(
            [inputs[:, i : i + rows, j : j + columns] for i in range(height) for j in range(width)],
            axis=-1,
        )  # [B, rows, columns, h·w·C]
        size = height * width * channels
        flat = tf.matmul(tf.reshape(patches, [-1, size]), tf.reshape(self.kernel, [size, -1]))
        return tf.reshape(flat + self.bias, [-1, rows, columns, self.filters])


@keras.saving.register_keras_serializable("ps_dqn")
class SpectralConvolution(precision.Unrounded, keras.layers.Conv2D):
    """A convolution whose kernel is divided by its largest singular value.

    Miyato et al. 2018, arXiv:1802.05957; of residual blocks in BTR (Clark et al. 2024,
    arXiv:2411.03820). The kernel counts as a matrix [h·w·C, U]. The papers keep a vector from step
    to step that comes closer to the singular one; a network here is a function of its parameters,
    so the vector is found in every call, from the kernel's Gram matrix squared again and again.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """From images [B, H, W, C] to [B, H', W', U]."""
        kernel = self.kernel / largest_singular_value(self.kernel)
        inputs, kernel, bias = (
            tf.cast(each, self.compute_dtype) for each in (inputs, kernel, self.bias)
        )
        found = tf.nn.conv2d(inputs, kernel, self.strides, self.padding.upper())
        return tf.nn.bias_add(found, bias)


def largest_singular_value(kernel: tf.Tensor) -> tf.Tensor:
    """Of a kernel [h, w, C, U] as a matrix [h·w·C, U]: σ = |K v|, float32 [].

    Its gradient is u vᵀ, as v has none. A vector that is not quite the singular one makes σ a
    little too small.
    """
    matrix = tf.reshape(kernel, [-1, kernel.shape[-1]])
    power = tf.stop_gradient(tf.matmul(matrix, matrix, transpose_a=True))  # [U, U]
    for _ in range(_SQUARINGS):
        power /= tf.linalg.trace(power) + 1e-30  # so that nothing grows or vanishes
        power = tf.matmul(power, power)
    # Of its columns, all of which are near the singular vector, the longest.
    lengths = tf.reduce_sum(tf.square(power), axis=0)
    column = tf.gather(power, tf.argmax(lengths), axis=1)
    vector = tf.stop_gradient(tf.math.l2_normalize(column, epsilon=1e-30))
    return tf.norm(tf.linalg.matvec(matrix, vector)) + 1e-12


@keras.saving.register_keras_serializable("ps_dqn")
class GridMaximum(keras.layers.Layer):
    """The largest value of each channel in each cell of a grid over the image.

    What adaptive maximum pooling is elsewhere: cell i of n begins at row ⌊i·H/n⌋ and ends before
    row ⌈(i+1)·H/n⌉, so cells share rows where n does not divide H.

    Args:
        cells: of the grid, along each side.
    """

    def __init__(self, cells: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.cells = cells

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """From images [B, H, W, C] to [B, n, n, C]."""
        x = inputs
        for axis in (1, 2):
            size = inputs.shape[axis]
            # A maximum over a slice for each cell: cells are few.
            parts = []
            for i in range(self.cells):
                begin, end = i * size // self.cells, -(-(i + 1) * size // self.cells)
                cell = x[:, begin:end] if axis == 1 else x[:, :, begin:end]
                parts.append(ops.max(cell, axis=axis, keepdims=True))
            x = ops.concatenate(parts, axis=axis)
        return x

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """[B, n, n, C]."""
        return (input_shape[0], self.cells, self.cells, input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        """For Keras's files."""
        return {**super().get_config(), "cells": self.cells}
