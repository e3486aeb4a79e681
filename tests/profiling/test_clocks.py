"""How another clock differs, found by asking it."""

import random

import pytest

from ps_dqn.profiling import clocks
from ps_dqn.profiling.clocks import SAME


class Far:
    """A clock that is ahead, behind a network that takes its time, each way another one."""

    def __init__(self, ahead: float, seed: int, slowest: float):
        self.time, self._ahead, self._slowest = 100.0, ahead, slowest
        self._random = random.Random(seed)

    def now(self) -> float:
        return self.time

    def ask(self) -> float:
        self.time += self._random.uniform(0.0001, self._slowest)
        said = self.time + self._ahead
        self.time += self._random.uniform(0.0001, self._slowest)
        return said


@pytest.mark.parametrize("ahead", [0.5, -0.5, 3_600.0, -1e6])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_as_near_as_it_says(ahead: float, seed: int) -> None:
    far = Far(ahead, seed, slowest=0.1)
    found = clocks.offset(far.ask, far.now)
    assert abs(found.seconds + ahead) <= found.within + 1e-9
    assert found.within < 0.1


@pytest.mark.parametrize("seed", range(5))
def test_one_clock_is_not_moved(seed: int) -> None:
    far = Far(0.0, seed, slowest=0.1)
    assert clocks.offset(far.ask, far.now) == SAME


def test_the_quickest_answer_counts() -> None:
    delays = iter([1.0, 0.2, 0.01, 0.7, 0.5, 0.5, 0.5, 0.5])
    time = 0.0

    def ask() -> float:
        nonlocal time
        took = next(delays)
        time += took  # all of it on the way there
        return time + 10.0

    found = clocks.offset(ask, lambda: time)
    assert found.within == pytest.approx(0.005)
    assert found.seconds == pytest.approx(-10.0 - 0.005)
