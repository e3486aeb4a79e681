"""What workers add up: gradients, and everybody's numbers without loss."""

import numpy as np

from ps_dqn.all_reduce.contributions import Contributions, size


def test_a_sum_has_all_numbers_as_they_were_and_the_sum_of_the_gradients() -> None:
    rng = np.random.default_rng(1)
    extremes = np.array([-(2**63), 2**63 - 1, -1, 0, 2**24 + 1], np.int64)
    numbers = [extremes, rng.integers(-(2**62), 2**62, 5), np.float64([0.1, -2.5e-300, 7, 1, 0])]
    numbers = [np.asarray(each).view(np.int64) for each in numbers]
    vectors = rng.normal(size=(3, 7)).astype(np.float32)
    places = [Contributions(7, 5, num_workers=4) for _ in range(3)]
    packed = []
    for place, vector in zip(places, vectors, strict=True):
        place.put(vector)
        packed.append(place.pack(numbers[len(packed)], len(packed), num_members=3))
    assert all(len(each) == size(7, 5, 3) == 7 + 4 * 5 * 3 for each in packed)

    total, found = places[0].unpack(packed[0] + packed[1] + packed[2])
    np.testing.assert_array_equal(total, vectors[0] + vectors[1] + vectors[2])
    np.testing.assert_array_equal(found, numbers)


def test_a_push_that_is_kept_back_adds_nothing() -> None:
    places = Contributions(3, 2, num_workers=2)
    places.put(np.float32([1, 2, 3]))
    places.pack(np.int64([5, 6]), 1, num_members=2)
    places.put(None)
    packed = places.pack(np.int64([7, 8]), 0, num_members=1)
    total, found = places.unpack(packed)
    np.testing.assert_array_equal(total, np.zeros(3))
    np.testing.assert_array_equal(found, [[7, 8]])
