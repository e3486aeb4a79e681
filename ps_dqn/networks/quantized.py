"""Layers with weights of 8 bits, to act with (ActorQ, Krishnan et al. 2019, arXiv:1910.01055).

A kernel is integers from -127 to 127 times a scale for each of its outputs, symmetric around 0.
What a layer is given is rounded likewise when it comes, with a scale for each row or image (its
dynamic range). So products are of integers of 8 bits, added up in 32, and multiplied by both scales
in the end.

Shapes: B rows or images, F features, U outputs, h and w of a kernel, C channels.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

# Of numbers with a sign in 8 bits; -128 would have no counterpart.
_LARGEST = 127.0
# So that a row of zeros has a scale.
_TINY = 1e-30


def quantize(x: tf.Tensor, axes: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Numbers as integers and what they are multiples of.

    Args:
        x: float32.
        axes: along which numbers share a scale.

    Returns:
        int8 of the same shape, and scales, float32, whose size along `axes` is 1: x is about their
        product, and no further from it than half a scale.
    """
    scale = tf.maximum(tf.reduce_max(tf.abs(x), axes, keepdims=True) / _LARGEST, _TINY)
    return tf.cast(tf.round(x / scale), tf.int8), scale


def of_weights(weights: Sequence[tf.Tensor], variables: Sequence[keras.Variable]) -> tuple:
    """The weights of a network of these layers, of the same one's in float32.

    Args:
        weights: in float32, in order.
        variables: of the network of these layers: each kernel of integers is followed by its
            scales, and all else is as it is there.
    """
    found, given, places = [], iter(weights), iter(variables)
    for variable in places:
        weight = next(given)
        if variable.dtype != "int8":
            found.append(weight)
            continue
        kernel, scales = quantize(weight, list(range(len(weight.shape) - 1)))
        next(places)
        found += [kernel, tf.reshape(scales, [-1])]
    return tuple(found)


class _Quantized(keras.layers.Layer):
    """A kernel of integers, its scales and a bias, which others say.

    Attributes:
        units: U.
    """

    def __init__(self, units: int):
        super().__init__(dtype="float32")
        self.units = units

    def _add_weights(self, shape: tuple[int, ...]) -> None:
        # Trainable like the kernel that they stand for, which is how a network knows its weights.
        self.kernel = self.add_weight(shape, "zeros", dtype="int8", name="kernel")
        self.kernel_scale = self.add_weight(shape[-1:], "ones", name="kernel_scale")
        self.bias = self.add_weight(shape[-1:], "zeros", name="bias")

    def _multiplied(self, rows: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
        """Integers [R, F] of scales [R, 1] times the kernel, as a matrix [F, U]: float32 [R, U]."""
        kernel = tf.reshape(self.kernel, [rows.shape[-1], self.units])
        sums = tf.matmul(rows, kernel, output_type=tf.int32)
        return tf.cast(sums, tf.float32) * scales * self.kernel_scale + self.bias


class QuantizedDense(_Quantized):
    """A dense layer."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes the kernel [F, U]."""
        self._add_weights((input_shape[-1], self.units))

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """From [B, F] to [B, U]."""
        return self._multiplied(*quantize(inputs, [1]))


class QuantizedConvolution(_Quantized):
    """A convolution of channels-last images, as one product with all patches of them.

    Args:
        filters: U.
        size: h and w.
        stride: from patch to patch.
        padding: "valid" or "same".
    """

    def __init__(self, filters: int, size: int, stride: int, padding: str):
        super().__init__(filters)
        self._size, self._stride, self._padding = size, stride, padding

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes the kernel [h, w, C, U]."""
        self._add_weights((self._size, self._size, input_shape[-1], self.units))

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """From images [B, H, W, C] to [B, H', W', U]."""
        images, scales = quantize(inputs, [1, 2, 3])
        sides = [self._patches_along(side) for side in inputs.shape[1:3]]
        (height, before, after), (width, left, right) = sides
        if self._padding == "same":
            images = tf.pad(images, [[0, 0], [before, after], [left, right], [0, 0]])
        reach = [(number - 1) * self._stride + 1 for number in (height, width)]
        patches = tf.concat(
            [
                images[:, i : i + reach[0] : self._stride, j : j + reach[1] : self._stride]
                for i in range(self._size)
                for j in range(self._size)
            ],
            axis=-1,
        )  # [B, H', W', h·w·C]
        rows = tf.reshape(patches, [-1, patches.shape[-1]])
        each = tf.repeat(tf.reshape(scales, [-1, 1]), height * width, axis=0)
        return tf.reshape(self._multiplied(rows, each), [-1, height, width, self.units])

    def _patches_along(self, side: int) -> tuple[int, int, int]:
        """How many there are along a side of so many pixels, and what goes before and after it."""
        if self._padding == "valid":
            return (side - self._size) // self._stride + 1, 0, 0
        number = -(-side // self._stride)
        padded = max((number - 1) * self._stride + self._size - side, 0)
        return number, padded // 2, padded - padded // 2
