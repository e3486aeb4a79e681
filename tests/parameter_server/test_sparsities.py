"""Erdős–Rényi-Kernel sparsities, by hand."""

import numpy as np
import pytest

from ps_dqn.parameter_server import sparsities

# CartPole's layers: 4 to 120 to 84 to 2 units.
SIZES, AXES = [480, 10_080, 168], [124, 204, 86]


def total(found: np.ndarray, sizes: list[int]) -> float:
    return float(np.dot(found, sizes)) / sum(sizes)


def test_all_together_have_the_sparsity_that_is_wanted() -> None:
    for sparsity in (0.01, 0.3, 0.5, 0.9, 0.99, 0.999):
        for found in (
            sparsities.erk(SIZES, AXES, sparsity),
            sparsities.uniform(SIZES, sparsity),
        ):
            assert total(found, SIZES) == pytest.approx(sparsity)
            assert (found >= 0).all()


def test_a_layer_keeps_by_the_sum_of_its_axes() -> None:
    # 0.5 % are 53.64 weights, shared by 124 + 204 + 86 = 414: 0.12957 for each unit of an axis.
    found = sparsities.erk(SIZES, AXES, 0.995)
    np.testing.assert_allclose(1 - found, 0.1295652 * np.array(AXES) / SIZES, rtol=1e-5)


def test_a_layer_that_would_keep_more_than_all_keeps_all() -> None:
    # 10 % are 1072.8 weights; of 414 shares of 2.591 the last layer's 86 would be 222.8 of 168. So
    # 904.8 are left for 124 + 204: 2.7585 each, 342.1 of the first and 562.7 of the second.
    found = sparsities.erk(SIZES, AXES, 0.9)
    np.testing.assert_allclose(found, [1 - 342.056 / 480, 1 - 562.744 / 10_080, 0], atol=1e-5)


def test_kernels_of_convolutions_count_their_height_and_width() -> None:
    # 8 x 8 kernels from 4 to 32 maps, and a dense layer of 512 x 18.
    sizes, axes = [8 * 8 * 4 * 32, 512 * 18], [8 + 8 + 4 + 32, 512 + 18]
    found = sparsities.erk(sizes, axes, 0.95)
    kept = (1 - found) * sizes
    assert kept[0] / kept[1] == pytest.approx(52 / 530)


def test_uniform_is_the_same_for_each() -> None:
    assert sparsities.uniform(SIZES, 0.9).tolist() == [0.9, 0.9, 0.9]
