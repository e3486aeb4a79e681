"""Prioritized draws against the formulas of the paper, and against cpprb's."""

import numpy as np
import pytest
from support.item_rings import Item, ItemRings, counts_of, is_plausible, prioritized, random_errors


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_probability_is_the_error_plus_epsilon_to_alpha(alpha: float) -> None:
    ring = ItemRings(prioritized(alpha, epsilon=0.2), 3, 16).add([16, 20, 5])
    errors = random_errors(ring)
    ring.prioritize(errors)
    shares = np.array([(abs(errors[item]) + 0.2) ** alpha for item in ring.items()])
    drawn, _ = ring.draw(50, 400)
    assert is_plausible(counts_of(drawn, ring.items()), shares)


@pytest.mark.parametrize(("progress", "beta"), [(0.0, 0.4), (0.5, 0.7), (1.0, 1.0)])
def test_weights_are_those_of_importance_sampling(progress: float, beta: float) -> None:
    ring = ItemRings(prioritized(0.6, 0.4, 0.01), 2, 30).add([30, 17])
    errors = random_errors(ring)
    ring.prioritize(errors)
    values = {item: (abs(error) + 0.01) ** 0.6 for item, error in errors.items()}
    total, number = sum(values.values()), len(values)
    drawn, weights = ring.draw(5, 8, progress)
    for row, got in zip(drawn, weights, strict=True):
        plain = np.array([(number * values[item] / total) ** -beta for item in row])
        assert got == pytest.approx(plain / plain.max(), rel=1e-5)
    assert (weights.max(axis=1) == 1).all()


def test_draws_and_weights_are_those_of_cpprb() -> None:
    cpprb = pytest.importorskip("cpprb")  # it has none for Python 3.13
    alpha, epsilon, size = 0.6, 0.01, 40
    ring = ItemRings(prioritized(alpha, 0.4, epsilon), 1, size).add([size])
    errors = {item: abs(error) for item, error in random_errors(ring).items()}
    ring.prioritize(errors)
    peer = cpprb.PrioritizedReplayBuffer(size, {"x": {}}, alpha=alpha, eps=epsilon)
    peer.add(x=np.arange(size))
    peer.update_priorities(np.arange(size), np.array([errors[item] for item in ring.items()]))
    theirs = peer.sample(40_000, beta=0.4)
    drawn, weights = ring.draw(100, 400)
    # Shares of theirs instead of a formula; a chi-square of two samples has twice the variance.
    ours = counts_of(drawn, ring.items())
    others = np.bincount(theirs["indexes"], minlength=size)
    statistic = ((ours - others) ** 2 / (ours + others)).sum()
    assert statistic < size - 1 + 4 * (2 * (size - 1)) ** 0.5
    # They divide by the largest weight of all items, here it is that of the minibatch.
    weight = dict(zip(theirs["indexes"].tolist(), theirs["weights"].tolist(), strict=True))
    for row, got in zip(drawn, weights, strict=True):
        expected = np.array([weight[i] for _, i in row])
        assert got == pytest.approx(expected / expected.max(), rel=1e-4)


def test_first_items_have_the_same_priority() -> None:
    ring = ItemRings(prioritized(0.6), 2, 8).add([5, 8])
    assert set(ring.priorities().values()) == {1.0}


def test_new_items_have_the_largest_priority_there_has_been() -> None:
    ring = ItemRings(prioritized(), 1, 16).add([4])
    ring.prioritize({(0, 0): 2, (0, 1): 2, (0, 2): 14, (0, 3): 2})
    ring.prioritize({(0, i): 2 for i in range(4)})
    ring.add([1])
    assert ring.priorities() == pytest.approx({(0, i): 1 for i in range(4)} | {(0, 4): 7})


def test_new_items_have_priority_one_while_all_errors_are_smaller() -> None:
    ring = ItemRings(prioritized(), 1, 16).add([2])
    ring.prioritize({(0, 0): 0.25, (0, 1): 0.5})
    ring.add([1])
    assert ring.priorities() == pytest.approx({(0, 0): 1, (0, 1): 2, (0, 2): 4})


@pytest.mark.parametrize("error", [np.nan, np.inf, -np.inf])
def test_an_error_that_is_not_finite_counts_as_the_largest(error: float) -> None:
    ring = ItemRings(prioritized(0.5), 1, 4).add([3])
    ring.prioritize({(0, 0): 1, (0, 1): 9, (0, 2): 4})
    ring.prioritize({(0, 0): 1, (0, 1): 1, (0, 2): error})
    assert ring.priorities() == pytest.approx({(0, 0): 1, (0, 1): 1, (0, 2): 3})


def test_of_an_item_drawn_twice_the_last_error_counts() -> None:
    ring = ItemRings(prioritized(), 1, 4).add([2])
    drawn, _ = ring.draw(3, 4)
    assert [sorted(row) for row in drawn] == [[(0, 0)] * 2 + [(0, 1)] * 2] * 3
    errors = np.full((3, 4), 50.0, np.float32)
    errors[2, [1, 3]] = 3, 12  # in each minibatch the first share is item 0, the last is item 1
    ring.update(errors)
    assert ring.priorities() == pytest.approx({(0, 0): 1, (0, 1): 4})


def test_a_minibatch_has_one_item_of_each_equal_share_of_the_sum() -> None:
    ring = ItemRings(prioritized(), 2, 8).add([8, 8])
    drawn, _ = ring.draw(30, 16)
    assert all(set(row) == set(ring.items()) for row in drawn)
    assert len(np.unique(ring.draw(30, 3)[0])) > 3, "but it is random which"


def test_gone_and_invalid_items_are_never_drawn() -> None:
    ring = ItemRings(prioritized(), 2, 6)
    for step in range(40):
        ring.add([1, step % 3])
        ring.invalid |= {(0, i) for i in range(0, 60, 3)}
        if ring.items():
            drawn, _ = ring.draw(2, 300)
            assert {item for row in drawn for item in row} == set(ring.items())


def test_priorities_follow_the_rings() -> None:
    """Items come and go while others change their priority; β = 1 shows all of them."""
    ring, rng = ItemRings(prioritized(), 3, 10), np.random.default_rng(3)
    expected: dict[Item, float] = {}
    largest = 1.0
    for _ in range(60):
        ring.add(rng.integers(0, 15, 3).tolist())
        if not ring.items():
            continue
        drawn, _ = ring.draw(2, 5, progress=1.0)
        expected = {item: expected.get(item, largest) for item in ring.items()}
        errors = rng.uniform(0.5, 2, (2, 5)).astype(np.float32)
        both = [*drawn[0], *drawn[1]]
        for item, error in zip(both, errors.ravel().tolist(), strict=True):
            expected[item] = error
            largest = max(largest, error)
        ring.update(errors)
        smallest = min(expected.values())
        shown = ring.priorities()
        assert shown == pytest.approx({item: p / smallest for item, p in expected.items()})


def test_an_error_for_an_item_that_has_gone_is_not_its_successors() -> None:
    ring = ItemRings(prioritized(), 1, 2).add([2])
    ring.draw(1, 4)
    ring.add([1])  # takes the place of item 0
    ring.update(np.array([[0.25, 0.25, 0.5, 0.5]], np.float32))
    assert ring.priorities() == pytest.approx({(0, 1): 1, (0, 2): 2})


def test_priorities_of_another_shape_are_refused() -> None:
    ring = ItemRings(prioritized(), 1, 4).add([2])
    ring.draw(3, 4)
    with pytest.raises(ValueError, match=r"\(4, 3\) for a draw of \(3, 4\)"):
        ring.update(np.zeros((4, 3), np.float32))


def test_priorities_survive_in_their_array() -> None:
    before = ItemRings(prioritized(), 2, 4).add([4, 3])
    errors = {item: 1.0 + 2 * item[0] + item[1] for item in before.items()}
    before.prioritize(errors)
    # Items as they are when another process opens the array: one has gone, one is not whole, and
    # what the array has for some is what a lost page leaves.
    after = ItemRings(prioritized(), 2, 4, before.array).add([5, 3])
    after.end = np.array([4, 3])
    after.invalid = {(0, 2)}
    leaf = len(before.array) // 2
    before.array[1:leaf] = 77.0
    before.array[[leaf + 3, leaf + 4, leaf + 5]] = np.nan, -1.0, 1e300
    after.sampler.restore(after.candidates)
    assert after.priorities() == pytest.approx(
        # (1, 2) kept the largest, 1 + 2 + 2, and the unusable ones have it as well.
        {(0, 0): 1, (0, 1): 2, (0, 3): 5, (1, 0): 5, (1, 1): 5, (1, 2): 5}
    )
    after.add([0, 1])
    assert after.priorities()[(1, 3)] == pytest.approx(5)


def test_errors_of_an_earlier_draw_are_those_of_its_items() -> None:
    ring = ItemRings(prioritized(), 2, 4).add([2, 2])
    ring.draw(1, 4)
    earlier = ring.drawn
    assert sorted(zip(earlier.envs[0], earlier.items[0], strict=True)) == ring.items()
    ring.draw(1, 2)
    errors = 1 + 2 * earlier.envs + earlier.items
    ring.sampler.update(earlier, errors.astype(np.float32))
    assert ring.priorities() == pytest.approx({(0, 0): 1, (0, 1): 2, (1, 0): 3, (1, 1): 4})


def test_errors_come_too_late_for_what_was_overwritten_before_the_next_draw() -> None:
    ring = ItemRings(prioritized(), 1, 4).add([4])
    ring.draw(1, 4)
    earlier = ring.drawn
    assert earlier.items.tolist() == [[0, 1, 2, 3]]
    ring.invalid = {(0, 5)}
    ring.add([2])  # take the places of items 0 and 1, the second of them none to draw
    ring.draw(1, 3)
    ring.sampler.update(earlier, np.full((1, 4), 0.25, np.float32))
    assert ring.priorities() == pytest.approx({(0, 2): 1, (0, 3): 1, (0, 4): 4})
