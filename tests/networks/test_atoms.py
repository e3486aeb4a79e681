"""Atoms and quantile fractions, against numbers written out."""

import numpy as np
import pytest

from ps_dqn.networks import atoms


@pytest.mark.parametrize("ends", [(-2.0, 4.0), (-2, 4)])
def test_support_is_evenly_spaced_from_end_to_end(ends: tuple[float, float]) -> None:
    support = atoms.support(*ends, 5)
    assert support.dtype == np.float32
    assert support.tolist() == [-2.0, -0.5, 1.0, 2.5, 4.0]


def test_bins_of_a_histogram_stand_for_their_middles() -> None:
    middles = atoms.middles(-2.0, 4.0, 3)
    assert middles.dtype == np.float32
    assert middles.tolist() == [-1.0, 1.0, 3.0]


def test_midpoints() -> None:
    assert atoms.midpoints(4).numpy().tolist() == [0.125, 0.375, 0.625, 0.875]
