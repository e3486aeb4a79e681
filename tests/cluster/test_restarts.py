"""How often a task that keeps ending is started again, and when."""

from collections.abc import Callable

import pytest
from support import seen_by

from ps_dqn.cluster import restarts
from ps_dqn.cluster.restarts import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    RESTARTS_PER_TASK,
    Restarts,
)
from ps_dqn.cluster.spec import Task

WORKER, OTHER = Task("worker", 0), Task("worker", 1)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock."""

    def set_to(seconds: float) -> None:
        seen_by.clock(monkeypatch, restarts, monotonic=lambda: seconds)

    set_to(0.0)
    return set_to


def test_it_is_started_again_at_once_a_few_times_and_then_given_up(
    at: Callable[[float], None],
) -> None:
    restarts = Restarts()
    for number in range(RESTARTS_PER_TASK):
        at(number)
        assert not restarts.is_given_up(WORKER)
        assert restarts.pause(WORKER) == 0
        assert restarts.count(WORKER) == f"started again ({number + 1} of {RESTARTS_PER_TASK})"
    assert restarts.is_given_up(WORKER)
    assert not restarts.is_given_up(OTHER)


def test_one_that_has_worked_begins_to_count_anew(at: Callable[[float], None]) -> None:
    restarts = Restarts()
    for number in range(3 * RESTARTS_PER_TASK):
        at(number)
        assert not restarts.is_given_up(WORKER)
        assert restarts.count(WORKER) == f"started again (1 of {RESTARTS_PER_TASK})"
        restarts.are_well(WORKER)


def test_while_others_work_it_is_started_less_and_less_often(at: Callable[[float], None]) -> None:
    restarts, pauses = Restarts(), []
    for number in range(RESTARTS_PER_TASK + 8):
        at(number)
        line = restarts.count(WORKER)
        at(number + 0.5)
        restarts.are_well(OTHER)
        assert not restarts.is_given_up(WORKER)
        pauses.append(restarts.pause(WORKER))
    assert pauses[: RESTARTS_PER_TASK - 1] == [0.0] * (RESTARTS_PER_TASK - 1)
    assert pauses[RESTARTS_PER_TASK - 1 :][:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert line == "started again (for the 13th time without having worked; others work)"
    for _ in range(2000):  # a week of them
        restarts.count(WORKER)
    assert restarts.pause(WORKER) == LONGEST_PAUSE


def test_others_that_worked_before_it_began_to_end_do_not_count(
    at: Callable[[float], None],
) -> None:
    restarts = Restarts()
    restarts.are_well(OTHER)
    at(1.0)
    for _ in range(RESTARTS_PER_TASK):
        restarts.count(WORKER)
    assert restarts.is_given_up(WORKER)
