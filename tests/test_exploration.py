"""The ladder of the workers' epsilons."""

import pytest

from ps_dqn import exploration


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
