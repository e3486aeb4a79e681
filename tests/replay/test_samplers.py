"""Uniform and recent draws, and what all samplers have in common."""

import numpy as np
import pytest
from support.item_rings import ItemRings, counts_of, is_plausible, prioritized

from ps_dqn.replay.samplers import (
    NothingToDrawError,
    Recent,
    Sampler,
    Uniform,
)


@pytest.mark.parametrize(("progress", "eta"), [(0.0, 0.998), (0.5, 0.999)])
def test_recent_minibatches_are_drawn_from_ever_newer_items(progress: float, eta: float) -> None:
    ring = ItemRings(Recent(0.998, 30), 2, 100).add([250, 130])
    drawn, weights = ring.draw(4, 4000, progress)
    assert (weights == 1).all()
    for m, row in enumerate(drawn, start=1):
        newest = max(200 * eta ** (1000 * m / 4), 30)
        age = int(np.ceil(newest / 2))
        items = [(env, end - k) for env, end in ((0, 250), (1, 130)) for k in range(1, age + 1)]
        assert set(row) == set(items)
        assert is_plausible(counts_of([row], items), np.ones(len(items)))


def test_recent_is_uniform_at_the_end_of_the_run() -> None:
    ring = ItemRings(Recent(0.99, 1), 2, 20).add([30, 12])
    drawn, _ = ring.draw(3, 2000, progress=1.0)
    assert all(is_plausible(counts_of([row], ring.items()), np.ones(32)) for row in drawn)


def test_recent_items_are_the_youngest_of_rings_that_are_filled_unevenly() -> None:
    # The newest 12 of 3, 1 and 40: ages up to 8, 3 + 1 + 8 = 12.
    ring = ItemRings(Recent(0.9, 12), 3, 50).add([3, 1, 40])
    drawn, _ = ring.draw(2, 600)
    items = [(0, 0), (0, 1), (0, 2), (1, 0), *((2, i) for i in range(32, 40))]
    assert set(drawn[1]) == set(items)
    assert is_plausible(counts_of(drawn[1:], items), np.ones(12))


def test_recent_takes_older_items_where_no_recent_one_is_valid() -> None:
    ring = ItemRings(Recent(0.9, 2), 2, 10).add([10, 10])
    ring.invalid = {(0, 9), (1, 9)}
    drawn, _ = ring.draw(1, 200)
    assert set(drawn[0]) == set(ring.items())


@pytest.mark.parametrize("sampler", [Uniform(), Recent(0.99, 5)])
def test_errors_do_not_matter_without_priorities(sampler: Sampler) -> None:
    ring = ItemRings(sampler, 1, 8).add([8])
    drawn, _ = ring.draw(1, 400)
    ring.update(np.zeros((1, 400), np.float32))
    again, weights = ring.draw(1, 400)
    assert set(again[0]) == set(drawn[0])
    assert (weights == 1).all()


def test_uniform_draws_find_the_few_valid_items() -> None:
    ring = ItemRings(Uniform(), 2, 3000).add([3000, 100])
    ring.invalid = set(ring.items()) - {(0, 17), (0, 2999), (1, 5)}
    drawn, _ = ring.draw(1, 300)
    assert is_plausible(counts_of(drawn, ring.items()), np.ones(3))


@pytest.mark.parametrize("make", [Uniform, lambda: Recent(0.9, 3), prioritized])
@pytest.mark.parametrize("counts", [[0, 0], [2, 1]])
def test_nothing_valid_is_an_error(make: type[Sampler], counts: list[int]) -> None:
    ring = ItemRings(make(), 2, 4).add(counts)
    ring.invalid = set(ring.items())
    with pytest.raises(NothingToDrawError, match="no complete transition"):
        ring.draw(2, 3)
