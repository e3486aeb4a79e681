"""A worker's loss scale, from one push to the next."""

import math

import numpy as np

from ps_dqn.config import Precision
from ps_dqn.learning import loss_scaling
from ps_dqn.learning.loss_scaling import Scale
from ps_dqn.worker.tally import Tally


class LossScale:
    """What losses are multiplied by; nothing where these numbers need no scale.

    Attributes:
        numbers: its state, which updates go on from: `Scale` as float32 [3], or [0].
    """

    def __init__(self, precision: Precision, first: int, tally: Tally):
        """Begins with a scale; counts in the tally what was skipped."""
        self._tally, self.numbers = tally, loss_scaling.NONE
        self._is_followed = False
        if precision.scales_loss:
            self.numbers = np.array(Scale(first, 0, 0), np.float32)

    @property
    def value(self) -> float:
        """The scale; NaN where there is none, or nobody who learns by it."""
        return float(self.numbers[0]) if self._is_followed else math.nan

    def take(self, numbers: np.ndarray, updates: int) -> int:
        """Takes what so many updates have made of it; how many of them were not skipped."""
        if not numbers.size:
            return updates
        scale, self._is_followed = Scale(*numbers), True
        self.numbers = np.array(scale._replace(skipped=0), np.float32)
        self._tally.add("skipped_updates", float(scale.skipped))
        return updates - int(scale.skipped)
