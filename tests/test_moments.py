"""Mean and spread, counted in parts and merged, are those of all rows at once."""

import numpy as np
import pytest

from ps_dqn import moments
from ps_dqn.moments import Moments


def of(rows: np.ndarray) -> Moments:
    found = Moments(rows.shape[1])
    found.add(rows)
    return found


@pytest.mark.parametrize("parts", [1, 2, 7, 100])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_parts_merge_to_the_whole(parts: int, offset: float) -> None:
    rows = np.random.default_rng(0).normal(offset, [1.0, 30.0, 1e-3], (100, 3))
    merged = Moments(3)
    for part in np.array_split(rows, parts):
        merged.merge(of(part))
    assert merged.count == 100
    np.testing.assert_allclose(merged.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(merged.squares / 100, rows.var(axis=0), rtol=1e-6)


def test_nothing_changes_nothing() -> None:
    found = of(np.array([[1.0, 2.0], [3.0, 2.0]]))
    before = found.as_numbers().tolist()
    found.merge(Moments(2))
    found.add(np.zeros((0, 2)))
    assert found.as_numbers().tolist() == before


def test_they_travel_bit_by_bit() -> None:
    found = of(np.random.default_rng(1).normal(size=(5, 4)))
    numbers = found.as_numbers()
    assert (numbers.dtype, numbers.size) == (np.int64, moments.num_numbers(4))
    again = Moments.of_numbers(numbers)
    assert again.as_numbers().tolist() == numbers.tolist()
    again.merge(found)  # what was read may be changed
    assert Moments.of_numbers(numbers).as_numbers().tolist() == numbers.tolist()


def test_of_no_numbers_nothing_travels() -> None:
    assert Moments(0).as_numbers().tolist() == []
    assert moments.num_numbers(0) == 0
    assert Moments.of_numbers(np.zeros(0, np.int64)).mean.tolist() == []


def test_the_head_has_means_and_scales_and_the_scale_of_rewards() -> None:
    found = of(np.array([[1.0, 5.0, 10.0], [3.0, 5.0, 30.0]]))
    # What has never differed, the second, is as it is; of returns the mean stays.
    assert moments.head(found, 0).tolist() == [2.0, 5.0, 20.0, 1.0, 1.0, np.float32(0.1)]
    assert moments.head(found, 1).tolist() == [2.0, 5.0, 1.0, 1.0, np.float32(0.1)]


def test_before_anything_was_seen_all_is_as_it_is() -> None:
    assert moments.head(Moments(3), 1).tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
