"""When a round is to go on without a worker, from reports alone."""

import pytest
from support.reports import report

from ps_dqn.coordinator.scheduling.patience import (
    FIRST_SECONDS,
    LEAST_SECONDS,
    USUAL_TIMES,
    Patience,
)


def pushed(worker: int, seconds: float = 0.1, pushes: int = 1):
    return report(worker=worker, pushes=pushes, time_gradient=seconds * pushes, time_waiting=500)


def in_vain(worker: int):
    return report(worker=worker, time_waiting=2.0)


@pytest.fixture
def patience() -> Patience:
    patience = Patience(3)
    for worker in range(3):
        assert not patience.hear(pushed(worker), now=0.0)
    return patience


def test_it_lasts_some_seconds_however_quick_the_workers_are(patience):
    assert not patience.hear(in_vain(0), now=100.0)
    assert not patience.hear(in_vain(1), now=100.0 + LEAST_SECONDS)
    assert patience.hear(in_vain(1), now=100.1 + LEAST_SECONDS)


def test_it_lasts_some_times_what_the_slowest_usually_takes(patience):
    patience.hear(pushed(1, seconds=30.0, pushes=4), now=0.0)
    assert not patience.hear(in_vain(0), now=100.0)
    assert not patience.hear(in_vain(0), now=100.0 + USUAL_TIMES * 30)
    assert patience.hear(in_vain(0), now=100.1 + USUAL_TIMES * 30)


def test_a_push_begins_it_anew(patience):
    assert not patience.hear(in_vain(0), now=100.0)
    assert not patience.hear(pushed(1), now=104.0)
    assert not patience.hear(in_vain(0), now=106.0)
    assert patience.hear(in_vain(0), now=112.0)


def test_it_is_longer_until_all_have_pushed():
    patience = Patience(2)
    patience.hear(pushed(0), now=0.0)
    assert not patience.hear(in_vain(0), now=2.0)
    assert not patience.hear(in_vain(0), now=2.0 + FIRST_SECONDS)
    assert patience.hear(in_vain(0), now=2.1 + FIRST_SECONDS)
    # One that never came is not waited for again, so it says nothing about the next one.
    assert patience.give_up([1]) == [1]
    assert not patience.hear(in_vain(0), now=200.0)
    assert patience.hear(in_vain(0), now=210.0)


def test_who_is_given_up_is_news_once_and_so_is_its_return(patience):
    assert patience.give_up([2]) == [2]
    assert patience.give_up([1, 2]) == [1]
    assert not patience.is_back(in_vain(2))
    assert not patience.is_back(pushed(0))
    assert patience.is_back(pushed(2))
    assert not patience.is_back(pushed(2))
    assert patience.give_up([2]) == [2]
