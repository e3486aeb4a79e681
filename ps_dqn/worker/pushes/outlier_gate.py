"""What a worker keeps to itself: pushes that are not finite, or whose loss is an outlier."""

import math

import numpy as np

from ps_dqn.config import ParameterServer
from ps_dqn.learning.result import Learned
from ps_dqn.worker.tally import Tally

# The share of the newest loss in the running mean and variance.
SHARE = 0.02
# Losses seen before any is called an outlier.
WARM_UP = 20
# As many outliers in a row are no outliers: the losses have changed for good.
MOST_IN_A_ROW = 50


class OutlierGate:
    """Running mean and deviation of a worker's loss (Nair et al. 2015, arXiv:1507.04296)."""

    def __init__(self, deviations: float):
        """Withholds losses above the mean plus this many deviations; 0 withholds none."""
        self._deviations = deviations
        self._seen = self._in_a_row = 0
        self._mean = self._variance = 0.0

    def admits(self, loss: float) -> bool:
        """Whether to push what was learned with this loss; remembers the loss.

        An outlier counts as if it lay on the limit, so that a single one does not open the gate for
        those that follow.
        """
        if self._in_a_row == MOST_IN_A_ROW:
            self._seen = self._in_a_row = 0
            self._mean = self._variance = 0.0
        limit = math.inf
        if self._deviations and self._seen >= WARM_UP:
            limit = self._mean + self._deviations * math.sqrt(self._variance)
        # The plain mean of the first losses, then an exponential one.
        share = max(SHARE, 1 / (self._seen + 1))
        gap = min(loss, limit) - self._mean
        self._mean += share * gap
        self._variance = (1 - share) * (self._variance + share * gap**2)
        self._seen += 1
        admitted = loss <= limit
        self._in_a_row = 0 if admitted else self._in_a_row + 1
        return admitted


class Admission:
    """Says of what was learned whether it is pushed, and counts it."""

    def __init__(self, options: ParameterServer, tally: Tally):
        """Admits by `outlier_gate`; counts in the tally."""
        self._gate, self._updates = OutlierGate(options.outlier_gate), options.local_updates
        self._tally = tally

    def admits(self, learned: Learned, made: int) -> bool:
        """Whether something is learned, finite and no outlier, by updates that were not skipped."""
        self._tally.add("updates", self._updates)
        if not made:
            self._tally.add("withheld_overflows")
            return False
        is_finite = are_finite(learned.vector, learned.slots, learned.td_loss)
        is_admitted = is_finite and self._gate.admits(float(learned.td_loss) / made)
        if not is_admitted:
            self._tally.add("withheld_outliers" if is_finite else "withheld_not_finite")
        if is_finite:
            self._tally.add("measured", made)
            for name in ("td_loss", "q_values", "grad_norm", "entropy"):
                self._tally.add(name, float(getattr(learned, name)))
        return is_admitted


def are_finite(*arrays: np.ndarray) -> bool:
    """Whether all numbers are: one that is not makes the sum so."""
    with np.errstate(all="ignore"):
        return all(math.isfinite(float(array.sum())) for array in arrays)
