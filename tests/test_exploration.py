"""Schedules over a run, and the ladder of the workers' epsilons."""

import pytest

from ps_dqn import exploration


@pytest.mark.parametrize(("step", "expected"), [(0, 1.0), (25, 0.775), (100, 0.1), (10**9, 0.1)])
def test_linear_schedule(step: int, expected: float) -> None:
    assert exploration.linear(1.0, 0.1, 100, step) == pytest.approx(expected)


def test_linear_schedule_may_rise_or_stand_still() -> None:
    assert exploration.linear(0.0, 2.0, 4, 1) == 0.5
    assert exploration.linear(0.3, 0.3, 4, 1) == 0.3
    # Exactly the end, not merely close to it.
    assert exploration.linear(1.0, 0.0, 7, 7) == 0.0


def test_ladder() -> None:
    values = [exploration.ladder(0.4, i, 8) for i in range(8)]
    assert values == pytest.approx([0.4 ** (1 + i) for i in range(8)])
    assert exploration.ladder(0.4, 2, 3) == pytest.approx(0.4**8)
    assert exploration.ladder(0.4, 1, 3) == pytest.approx(0.4**4.5)


def test_ladder_of_one_worker_is_epsilon_itself() -> None:
    assert exploration.ladder(0.4, 0, 1) == 0.4


@pytest.mark.parametrize("worker", range(4))
def test_ladder_keeps_zero_and_one(worker: int) -> None:
    for epsilon in (0.0, 1.0):
        assert exploration.ladder(epsilon, worker, 4) == epsilon
