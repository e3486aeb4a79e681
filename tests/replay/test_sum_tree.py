"""The sum tree against cumulative sums of its leaves."""

import numpy as np
import pytest

from ps_dqn.replay.sum_tree import SumTree


def make(size: int) -> SumTree:
    return SumTree(size, lambda name, shape, dtype: np.zeros(shape, dtype))


def filled(values: list[float]) -> SumTree:
    tree = make(len(values))
    tree.set(np.arange(len(values)), np.array(values))
    return tree


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 1000])
def test_each_leaf_is_found_between_the_sum_before_it_and_the_sum_with_it(size: int) -> None:
    # Whole numbers, whose sums are exact.
    values = np.random.default_rng(size).integers(1, 10, size).astype(np.float64)
    tree = filled(values.tolist())
    upper = np.cumsum(values)
    assert tree.total == upper[-1]
    leaves = np.arange(size)
    assert (tree.find(upper - values) == leaves).all()
    assert (tree.find(upper - 0.5 * values) == leaves).all()
    assert (tree.find(upper - 0.001) == leaves).all()


def test_leaves_of_zero_are_passed_over() -> None:
    tree = filled([0, 2, 0, 0, 3, 0])
    assert tree.find(np.array([0.0, 1.9, 2.0, 4.9])).tolist() == [1, 1, 4, 4]


@pytest.mark.parametrize("size", [5, 64, 700])
def test_what_rounds_to_the_total_or_beyond_finds_a_leaf_that_is_not_zero(size: int) -> None:
    rng = np.random.default_rng(size)
    for _ in range(50):
        # From 1e-12 to 1e12, most of them 0, so sums round at every node.
        values = 10 ** rng.uniform(-12, 12, size) * (rng.random(size) < 0.1)
        values[rng.integers(size)] = 1.0
        tree = filled(values.tolist())
        ends = tree.total * (1 + np.array([-1e-15, 0.0, 1e-15, 1e-6]))
        edges = np.cumsum(values)
        sums = np.concatenate([ends, edges, np.nextafter(edges, 0), np.nextafter(edges, 1e99)])
        assert (values[tree.find(sums)] > 0).all()


def test_the_share_of_sums_that_find_a_leaf_is_its_share_of_the_total() -> None:
    values = np.random.default_rng(1).random(300) * (np.arange(300) % 3 > 0)
    tree = filled(values.tolist())
    count = 200_000
    found = tree.find((np.arange(count) + 0.5) * tree.total / count)
    # Evenly spaced sums: each leaf is found as often as spaces fit into it, one more or less.
    expected = values / values.sum() * count
    assert np.abs(np.bincount(found, minlength=300) - expected).max() <= 1


def test_find_keeps_the_shape_and_its_argument() -> None:
    tree = filled([1.0, 1.0, 2.0])
    sums = np.array([[0.5, 1.5], [2.5, 3.5]])
    assert tree.find(sums).tolist() == [[0, 1], [2, 2]]
    assert sums.tolist() == [[0.5, 1.5], [2.5, 3.5]]


def test_the_last_value_of_a_leaf_named_twice_counts() -> None:
    tree = filled([1.0, 1.0, 1.0, 1.0])
    tree.set(np.array([2, 0, 2, 2]), np.array([9.0, 3.0, 8.0, 5.0]))
    assert tree.get(np.arange(4)).tolist() == [3, 1, 5, 1]
    assert tree.total == 10


@pytest.mark.parametrize("changed", [1, 5, 40, 512, 1000])
def test_total_is_the_sum_of_the_leaves_however_many_change_at_once(changed: int) -> None:
    rng = np.random.default_rng(changed)
    tree, values = make(1000), np.zeros(1000)
    for _ in range(20):
        leaves = rng.integers(1000, size=changed)
        new = rng.integers(0, 100, changed).astype(np.float64)
        tree.set(leaves, new)
        for leaf, value in zip(leaves, new, strict=True):
            values[leaf] = value
        assert tree.total == values.sum()
        assert (tree.get(np.arange(1000)) == values).all()
        positive = np.flatnonzero(values)
        middles = (np.cumsum(values) - values / 2)[positive]
        assert (tree.find(middles) == positive).all()


def test_sums_do_not_drift() -> None:
    tree, rng = make(64), np.random.default_rng(2)
    for _ in range(3000):
        leaves = rng.integers(64, size=3)
        tree.set(leaves, 10 ** rng.uniform(-8, 8, 3))
    tree.set(np.arange(64), np.full(64, 1e-8))
    # Sums that had kept an error of the large values would be far off now.
    assert tree.total == pytest.approx(64e-8, rel=1e-14)


def test_a_tree_of_zeros_has_the_total_zero() -> None:
    tree = filled([1.0, 2.0, 3.0])
    tree.set(np.arange(3), np.zeros(3))
    assert tree.total == 0


def test_reset_keeps_nothing_but_what_it_sets() -> None:
    tree = filled([1.0, 2.0, 3.0, 4.0, 5.0])
    tree.reset(np.array([1, 4]), np.array([7.0, 8.0]))
    assert tree.get(np.arange(5)).tolist() == [0, 7, 0, 0, 8]
    assert tree.total == 15
    assert tree.find(np.array([0.0, 6.9, 7.0, 14.9])).tolist() == [1, 1, 4, 4]


def test_the_array_comes_from_the_given_allocation() -> None:
    calls = []

    def allocate(name: str, shape: tuple[int, ...], dtype: object) -> np.ndarray:
        calls.append((name, shape, np.dtype(dtype).name))
        return np.zeros(shape, dtype)

    SumTree(5, allocate)
    assert calls == [("priorities", (16,), "float64")]
