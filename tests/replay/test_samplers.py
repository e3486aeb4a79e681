"""Samplers against the formulas of their papers, and prioritized draws against cpprb's."""

import cpprb
import numpy as np
import pytest

from ps_dqn.replay.samplers import (
    Candidates,
    NothingToDrawError,
    Prioritized,
    Recent,
    Sampler,
    Uniform,
)

Item = tuple[int, int]  # environment and number


class Ring:
    """Items of several environments, `slots` of each, and a sampler that draws from them."""

    def __init__(
        self, sampler: Sampler, num_envs: int, slots: int, array: np.ndarray | None = None
    ):
        self.sampler = sampler
        self.slots = slots
        self.end = np.zeros(num_envs, np.int64)
        self.invalid: set[Item] = set()

        def allocate(name: str, shape: tuple[int, ...], dtype: object) -> np.ndarray:
            self.array = np.zeros(shape, dtype) if array is None else array
            return self.array

        sampler.attach(num_envs, slots, np.random.default_rng(7), allocate)

    def add(self, counts: list[int]) -> "Ring":
        self.end = self.end + counts
        return self

    @property
    def candidates(self) -> Candidates:
        first = np.maximum(self.end - self.slots, 0)
        return Candidates(first, self.end.copy(), self._is_valid)

    def items(self) -> list[Item]:
        first, end, _ = self.candidates
        every = [(env, i) for env in range(len(end)) for i in range(first[env], end[env])]
        return [item for item in every if item not in self.invalid]

    def draw(
        self, minibatches: int, batch_size: int, progress: float = 0.0
    ) -> tuple[list[list[Item]], np.ndarray]:
        drawn = self.sampler.draw(self.candidates, minibatches, batch_size, progress)
        assert drawn.weights.dtype == np.float32
        assert drawn.envs.shape == drawn.items.shape == drawn.weights.shape
        pairs = np.stack([drawn.envs, drawn.items], axis=-1).tolist()
        return [[(env, i) for env, i in row] for row in pairs], drawn.weights

    def prioritize(self, errors: dict[Item, float], count: int = 4000) -> None:
        """Draws until every item was drawn, and gives each its TD error."""
        drawn, _ = self.draw(1, count)
        assert set(drawn[0]) == set(self.items())
        values = [[errors[item] for item in row] for row in drawn]
        self.sampler.update(np.array(values, np.float32))

    def priorities(self) -> dict[Item, float]:
        """Of all items, relative to the smallest: with β = 1 the weights are min p / p."""
        drawn, weights = self.draw(1, 4000, progress=1.0)
        found = dict(zip(drawn[0], (1 / weights[0]).tolist(), strict=True))
        assert found.keys() == set(self.items())
        return found

    def _is_valid(self, envs: np.ndarray, items: np.ndarray) -> np.ndarray:
        pairs = zip(envs.tolist(), items.tolist(), strict=True)
        return np.array([pair not in self.invalid for pair in pairs], np.bool_)


def prioritized(alpha: float = 1.0, beta: float = 0.4, epsilon: float = 1e-9) -> Prioritized:
    return Prioritized(alpha, beta, epsilon)


def counts_of(drawn: list[list[Item]], items: list[Item]) -> np.ndarray:
    places = {item: place for place, item in enumerate(items)}
    return np.bincount([places[item] for row in drawn for item in row], minlength=len(items))


def is_plausible(counts: np.ndarray, shares: np.ndarray) -> bool:
    """Chi-square: mean f, standard deviation √(2f); stratified draws vary less than random ones."""
    expected = counts.sum() * shares / shares.sum()
    freedom = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic < freedom + 4 * (2 * freedom) ** 0.5


def random_errors(ring: Ring, seed: int = 0) -> dict[Item, float]:
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], len(ring.items()))
    return dict(zip(ring.items(), (rng.uniform(0.1, 3, len(signs)) * signs).tolist(), strict=True))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_probability_is_the_error_plus_epsilon_to_alpha(alpha: float) -> None:
    ring = Ring(prioritized(alpha, epsilon=0.2), 3, 16).add([16, 20, 5])
    errors = random_errors(ring)
    ring.prioritize(errors)
    shares = np.array([(abs(errors[item]) + 0.2) ** alpha for item in ring.items()])
    drawn, _ = ring.draw(50, 400)
    assert is_plausible(counts_of(drawn, ring.items()), shares)


@pytest.mark.parametrize(("progress", "beta"), [(0.0, 0.4), (0.5, 0.7), (1.0, 1.0)])
def test_weights_are_those_of_importance_sampling(progress: float, beta: float) -> None:
    ring = Ring(prioritized(0.6, 0.4, 0.01), 2, 30).add([30, 17])
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
    alpha, epsilon, size = 0.6, 0.01, 40
    ring = Ring(prioritized(alpha, 0.4, epsilon), 1, size).add([size])
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
    ring = Ring(prioritized(0.6), 2, 8).add([5, 8])
    assert set(ring.priorities().values()) == {1.0}


def test_new_items_have_the_largest_priority_there_has_been() -> None:
    ring = Ring(prioritized(), 1, 16).add([4])
    ring.prioritize({(0, 0): 2, (0, 1): 2, (0, 2): 14, (0, 3): 2})
    ring.prioritize({(0, i): 2 for i in range(4)})
    ring.add([1])
    assert ring.priorities() == pytest.approx({(0, i): 1 for i in range(4)} | {(0, 4): 7})


def test_new_items_have_priority_one_while_all_errors_are_smaller() -> None:
    ring = Ring(prioritized(), 1, 16).add([2])
    ring.prioritize({(0, 0): 0.25, (0, 1): 0.5})
    ring.add([1])
    assert ring.priorities() == pytest.approx({(0, 0): 1, (0, 1): 2, (0, 2): 4})


@pytest.mark.parametrize("error", [np.nan, np.inf, -np.inf])
def test_an_error_that_is_not_finite_counts_as_the_largest(error: float) -> None:
    ring = Ring(prioritized(0.5), 1, 4).add([3])
    ring.prioritize({(0, 0): 1, (0, 1): 9, (0, 2): 4})
    ring.prioritize({(0, 0): 1, (0, 1): 1, (0, 2): error})
    assert ring.priorities() == pytest.approx({(0, 0): 1, (0, 1): 1, (0, 2): 3})


def test_of_an_item_drawn_twice_the_last_error_counts() -> None:
    ring = Ring(prioritized(), 1, 4).add([2])
    drawn, _ = ring.draw(3, 4)
    assert [sorted(row) for row in drawn] == [[(0, 0)] * 2 + [(0, 1)] * 2] * 3
    errors = np.full((3, 4), 50.0, np.float32)
    errors[2, [1, 3]] = 3, 12  # in each minibatch the first share is item 0, the last is item 1
    ring.sampler.update(errors)
    assert ring.priorities() == pytest.approx({(0, 0): 1, (0, 1): 4})


def test_a_minibatch_has_one_item_of_each_equal_share_of_the_sum() -> None:
    ring = Ring(prioritized(), 2, 8).add([8, 8])
    drawn, _ = ring.draw(30, 16)
    assert all(set(row) == set(ring.items()) for row in drawn)
    assert len(np.unique(ring.draw(30, 3)[0])) > 3, "but it is random which"


def test_gone_and_invalid_items_are_never_drawn() -> None:
    ring = Ring(prioritized(), 2, 6)
    for step in range(40):
        ring.add([1, step % 3])
        ring.invalid |= {(0, i) for i in range(0, 60, 3)}
        if ring.items():
            drawn, _ = ring.draw(2, 300)
            assert {item for row in drawn for item in row} == set(ring.items())


def test_priorities_follow_the_rings() -> None:
    """Items come and go while others change their priority; β = 1 shows all of them."""
    ring, rng = Ring(prioritized(), 3, 10), np.random.default_rng(3)
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
        ring.sampler.update(errors)
        smallest = min(expected.values())
        shown = ring.priorities()
        assert shown == pytest.approx({item: p / smallest for item, p in expected.items()})


def test_an_error_for_an_item_that_has_gone_is_not_its_successors() -> None:
    ring = Ring(prioritized(), 1, 2).add([2])
    ring.draw(1, 4)
    ring.add([1])  # takes the place of item 0
    ring.sampler.update(np.array([[0.25, 0.25, 0.5, 0.5]], np.float32))
    assert ring.priorities() == pytest.approx({(0, 1): 1, (0, 2): 2})


def test_priorities_of_another_shape_are_refused() -> None:
    ring = Ring(prioritized(), 1, 4).add([2])
    ring.draw(3, 4)
    with pytest.raises(ValueError, match=r"\(4, 3\) for a draw of \(3, 4\)"):
        ring.sampler.update(np.zeros((4, 3), np.float32))


def test_priorities_survive_in_their_array() -> None:
    before = Ring(prioritized(), 2, 4).add([4, 3])
    errors = {item: 1.0 + 2 * item[0] + item[1] for item in before.items()}
    before.prioritize(errors)
    # Items as they are when another process opens the array: one has gone, one is not whole, and
    # what the array has for some is what a lost page leaves.
    after = Ring(prioritized(), 2, 4, before.array).add([5, 3])
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


@pytest.mark.parametrize(("progress", "eta"), [(0.0, 0.998), (0.5, 0.999)])
def test_recent_minibatches_are_drawn_from_ever_newer_items(progress: float, eta: float) -> None:
    ring = Ring(Recent(0.998, 30), 2, 100).add([250, 130])
    drawn, weights = ring.draw(4, 4000, progress)
    assert (weights == 1).all()
    for m, row in enumerate(drawn, start=1):
        newest = max(200 * eta ** (1000 * m / 4), 30)
        age = int(np.ceil(newest / 2))
        items = [(env, end - k) for env, end in ((0, 250), (1, 130)) for k in range(1, age + 1)]
        assert set(row) == set(items)
        assert is_plausible(counts_of([row], items), np.ones(len(items)))


def test_recent_is_uniform_at_the_end_of_the_run() -> None:
    ring = Ring(Recent(0.99, 1), 2, 20).add([30, 12])
    drawn, _ = ring.draw(3, 2000, progress=1.0)
    assert all(is_plausible(counts_of([row], ring.items()), np.ones(32)) for row in drawn)


def test_recent_items_are_the_youngest_of_rings_that_are_filled_unevenly() -> None:
    # The newest 12 of 3, 1 and 40: ages up to 8, 3 + 1 + 8 = 12.
    ring = Ring(Recent(0.9, 12), 3, 50).add([3, 1, 40])
    drawn, _ = ring.draw(2, 600)
    items = [(0, 0), (0, 1), (0, 2), (1, 0), *((2, i) for i in range(32, 40))]
    assert set(drawn[1]) == set(items)
    assert is_plausible(counts_of(drawn[1:], items), np.ones(12))


def test_recent_takes_older_items_where_no_recent_one_is_valid() -> None:
    ring = Ring(Recent(0.9, 2), 2, 10).add([10, 10])
    ring.invalid = {(0, 9), (1, 9)}
    drawn, _ = ring.draw(1, 200)
    assert set(drawn[0]) == set(ring.items())


@pytest.mark.parametrize("sampler", [Uniform(), Recent(0.99, 5)])
def test_errors_do_not_matter_without_priorities(sampler: Sampler) -> None:
    ring = Ring(sampler, 1, 8).add([8])
    drawn, _ = ring.draw(1, 400)
    sampler.update(np.zeros((1, 400), np.float32))
    again, weights = ring.draw(1, 400)
    assert set(again[0]) == set(drawn[0])
    assert (weights == 1).all()


def test_uniform_draws_find_the_few_valid_items() -> None:
    ring = Ring(Uniform(), 2, 3000).add([3000, 100])
    ring.invalid = set(ring.items()) - {(0, 17), (0, 2999), (1, 5)}
    drawn, _ = ring.draw(1, 300)
    assert is_plausible(counts_of(drawn, ring.items()), np.ones(3))


@pytest.mark.parametrize("make", [Uniform, lambda: Recent(0.9, 3), prioritized])
@pytest.mark.parametrize("counts", [[0, 0], [2, 1]])
def test_nothing_valid_is_an_error(make: type[Sampler], counts: list[int]) -> None:
    ring = Ring(make(), 2, 4).add(counts)
    ring.invalid = set(ring.items())
    with pytest.raises(NothingToDrawError, match="no complete transition"):
        ring.draw(2, 3)
