"""A loss scale that follows the gradients, so that small ones are numbers in float16.

Micikevicius et al. 2018, arXiv:1710.03740, section 3.2: the loss is multiplied by a scale and its
gradient divided by it. Where the gradient overflows, the update is skipped and the scale halved;
after many updates in a row without an overflow it doubles.

Shapes: P parameters.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from ps_dqn.config import Precision
from ps_dqn.config.precision import LARGEST_SCALE

# The state where nothing is scaled.
NONE = np.zeros(0, np.float32)


class Scale(NamedTuple):
    """What a worker keeps of the loss scale, float32 [] each."""

    scale: Any  # that losses are multiplied by
    in_a_row: Any  # updates since the last overflow, or since it doubled
    skipped: Any  # updates of this push that overflowed


class LossScaling(Protocol):
    """What an update needs to know of a loss scale.

    Attributes:
        num_numbers: of its state: those of `Scale`, or none.
    """

    num_numbers: int

    def scaled(self, loss: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """The loss to differentiate, float32 []."""

    def unscaled(self, gradient: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The gradient [P] of the loss, zeros where it overflowed, and the state after it."""

    def kept(
        self,
        before: tf.Tensor,
        after: tf.Tensor,
        old: Sequence[tf.Tensor],
        new: Sequence[tf.Tensor],
    ) -> list[tf.Tensor]:
        """Tensors after an update: the new ones, or the old ones where it is skipped.

        Args:
            before: the state before its gradient.
            after: the state after it.
            old: as they were.
            new: what the update made of them.
        """

    def made(self, state: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
        """How many of so many updates of this push were not skipped, float32 []."""


class Unscaled:
    """Numbers with the range of float32, which need no scale: nothing is skipped."""

    num_numbers = 0

    def scaled(self, loss, state):  # type: ignore[no-untyped-def]
        """The loss itself."""
        return loss

    def unscaled(self, gradient, state):  # type: ignore[no-untyped-def]
        """The gradient itself."""
        return gradient, state

    def kept(self, before, after, old, new):  # type: ignore[no-untyped-def]
        """The new ones."""
        return list(new)

    def made(self, state, updates):  # type: ignore[no-untyped-def]
        """All of them."""
        return tf.cast(updates, tf.float32)


class Dynamic:
    """A scale between 1 and `LARGEST_SCALE`."""

    num_numbers = len(Scale._fields)

    def __init__(self, growth_period: int):
        """It doubles after so many updates in a row without an overflow."""
        self._growth_period = growth_period

    def scaled(self, loss, state):  # type: ignore[no-untyped-def]
        """Times the scale."""
        return loss * _read(state).scale

    def unscaled(self, gradient, state):  # type: ignore[no-untyped-def]
        """Divided by the scale; the scale follows what is found."""
        scale, in_a_row, skipped = _read(state)
        is_finite = tf.reduce_all(tf.math.is_finite(gradient))
        in_a_row += 1.0
        is_long = in_a_row >= self._growth_period
        grown = tf.minimum(tf.where(is_long, 2.0 * scale, scale), float(LARGEST_SCALE))
        after = Scale(
            tf.where(is_finite, grown, tf.maximum(0.5 * scale, 1.0)),
            tf.where(is_finite & ~is_long, in_a_row, 0.0),
            tf.where(is_finite, skipped, skipped + 1.0),
        )
        # A choice and no product: what is not a number stays so, whatever it is multiplied by.
        return tf.where(is_finite, gradient / scale, 0.0), tf.stack(after)

    def kept(self, before, after, old, new):  # type: ignore[no-untyped-def]
        """The old ones where there is one more that overflowed."""
        is_skipped = _read(after).skipped > _read(before).skipped
        return [tf.where(is_skipped, one, other) for one, other in zip(old, new, strict=True)]

    def made(self, state, updates):  # type: ignore[no-untyped-def]
        """All but those that overflowed."""
        return tf.cast(updates, tf.float32) - _read(state).skipped


def make(precision: Precision) -> LossScaling:
    """What these numbers need."""
    return Dynamic(precision.loss_scale_growth_period) if precision.scales_loss else Unscaled()


def _read(state: tf.Tensor) -> Scale:
    return Scale(*tf.unstack(state))
