"""Interquartile means over runs, and how far they can be trusted (Agarwal et al. 2021).

arXiv:2108.13264. The interquartile mean leaves out the lowest and the highest quarter of the runs:
one run that failed does not decide, and yet more than the middle one counts.
"""

from collections.abc import Sequence

import numpy as np

LEVEL = 0.95  # of the intervals
RESAMPLES = 2000
_SEED = 0  # the same picture of the same runs


def mean(scores: np.ndarray) -> np.ndarray:
    """The interquartile mean.

    Args:
        scores: of each run [runs, …].

    Returns:
        [...].
    """
    cut = len(scores) // 4
    middle: np.ndarray = np.sort(scores, axis=0)[cut : len(scores) - cut]
    return middle.mean(axis=0)


def interval(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The percentile bootstrap's interval of the interquartile mean: runs are drawn anew.

    Args:
        scores: of each run [runs, points].

    Returns:
        The lower and the upper ends [points]; NaN where there is one run.
    """
    runs, points = scores.shape
    if runs < 2:
        nothing = np.full(points, np.nan)
        return nothing, nothing
    drawn = np.random.default_rng(_SEED).integers(runs, size=(runs, RESAMPLES))
    # Point by point: all at once may be gigabytes.
    means = np.stack([mean(scores[:, i][drawn]) for i in range(points)], axis=1)
    outside = (1.0 - LEVEL) / 2
    low, high = np.quantile(means, [outside, 1.0 - outside], axis=0)
    return low, high


def over_strata(strata: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """The interquartile mean of all runs of several environments, and its interval.

    Of each environment as many runs are drawn as it has, so that none gets another weight by
    chance (a stratified bootstrap).

    Args:
        strata: of each environment the scores of its runs [runs], comparable with the others'.

    Returns:
        The mean, the lower and the upper end.
    """
    random = np.random.default_rng(_SEED)
    drawn = [each[random.integers(len(each), size=(len(each), RESAMPLES))] for each in strata]
    outside = (1.0 - LEVEL) / 2
    low, high = np.quantile(mean(np.concatenate(drawn)), [outside, 1.0 - outside])
    return float(mean(np.concatenate(strata))), float(low), float(high)
