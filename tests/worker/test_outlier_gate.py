"""The gate in front of pushes: what it calls an outlier, and that it never shuts for good."""

import copy

import numpy as np
import pytest

from ps_dqn.worker.pushes.outlier_gate import WARM_UP, OutlierGate


def losses(count: int, mean: float = 1.0, deviation: float = 0.1, seed: int = 2) -> list[float]:
    return np.random.default_rng(seed).normal(mean, deviation, count).tolist()


def fed(deviations: float, seen: list[float]) -> OutlierGate:
    gate = OutlierGate(deviations)
    for loss in seen:
        gate.admits(loss)
    return gate


def would_admit(gate: OutlierGate, loss: float) -> bool:
    """What the gate would say, without its hearing of it."""
    return copy.deepcopy(gate).admits(loss)


def test_without_deviations_everything_is_admitted() -> None:
    gate = OutlierGate(0.0)
    assert all(gate.admits(loss) for loss in [*losses(100), 1e3, 1e9, 1e30, 0.0])


def test_nothing_is_an_outlier_until_enough_was_seen() -> None:
    seen = losses(WARM_UP)
    assert would_admit(fed(3.0, seen[:-1]), 100.0)
    assert not would_admit(fed(3.0, seen), 100.0)


@pytest.mark.parametrize("deviations", [1.0, 2.0, 4.5])
@pytest.mark.parametrize("count", [WARM_UP, 37, 50])
def test_limit_is_the_mean_and_so_many_deviations_above(deviations: float, count: int) -> None:
    # Ones and threes: none of them is an outlier, so the first fifty have their plain statistics.
    seen = [1.0, 3.0] * (count // 2) + [2.0] * (count % 2)
    if deviations == 1.0:
        seen[WARM_UP:] = [2.0] * (count - WARM_UP)
    limit = np.mean(seen) + deviations * np.std(seen)
    gate = fed(deviations, seen)
    assert would_admit(gate, limit - 1e-6)
    assert not would_admit(gate, limit + 1e-6)
    assert would_admit(gate, -1e9), "a small loss is no outlier"


def test_later_on_new_losses_count_more_than_old_ones() -> None:
    seen = losses(400) + losses(400, mean=0.2, deviation=0.01)
    # Two parts in a hundred for each new one: of the first level e^-8 is left.
    assert not would_admit(fed(3.0, seen), 0.6)
    assert would_admit(fed(3.0, seen), 0.2)


def test_an_outlier_is_withheld_and_hardly_moves_the_limit() -> None:
    gate = fed(3.0, losses(300))
    assert not gate.admits(1e6)
    assert not gate.admits(2.0), "one outlier does not open the gate for the next"
    assert gate.admits(1.0)
    assert sum(gate.admits(loss) for loss in losses(200, seed=3)) > 190


@pytest.mark.parametrize("deviations", [0.5, 1.0, 2.0, 3.0, 6.0])
@pytest.mark.parametrize("level", [2.0, 100.0])
def test_a_lasting_rise_is_admitted_in_the_end(deviations: float, level: float) -> None:
    gate = fed(deviations, losses(300))
    risen = losses(3000, mean=level, seed=4)
    assert not gate.admits(risen[0])
    assert any(gate.admits(loss) for loss in risen[1:])


def test_a_rise_after_equal_losses_is_admitted_in_the_end() -> None:
    # Before the first reward every loss may be zero, and so is their deviation.
    gate = fed(3.0, [0.0] * 100)
    assert any(gate.admits(loss) for loss in losses(3000))
