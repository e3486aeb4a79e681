"""What a run's recoveries cost."""

import math

import pytest

from ps_dqn.coordinator.history import History
from ps_dqn.coordinator.recovery import Recovered
from ps_dqn.state import Counters


def counters(updates: int) -> Counters:
    return Counters(updates // 64, updates, 10 * updates, 3, updates)


def test_of_a_run_that_lost_nothing_there_is_nothing_to_say() -> None:
    history = History()
    history.begins(3.0)
    assert history.recovered(Recovered(again=0, lost=0, first_ticket=1), counters(0)) == 0
    said = history.summary(13.5)
    assert said == {
        "recoveries": 0,
        "recovery_seconds": 0.0,
        "pushes_again": 0,
        "updates_lost": 0,
        "goodput": 1.0,
        "task_failures": [],
    }


def test_time_without_a_connection_is_that_of_recovering() -> None:
    history = History()
    history.begins(3.0)
    history.lost(counters(640), 15.0)
    assert history.recovered(Recovered(40, 0, 9), counters(700)) == 0, "more than was heard of"
    history.begins(20.0)
    history.lost(counters(900), 33.0)
    assert history.recovered(Recovered(5, 2, 30), counters(772)) == 128
    history.begins(40.0)
    assert history.began_at == 7720
    said = history.summary(45.0)
    # 42 s since the first closure, of which 5 and 7 were without a connection.
    assert said["recovery_seconds"] == 12.0
    assert said["goodput"] == pytest.approx(30 / 42)
    assert (said["recoveries"], said["pushes_again"], said["updates_lost"]) == (2, 45, 128)
    assert history.start_seconds == 3.0


def test_a_process_that_comes_after_others_goes_on_with_their_times() -> None:
    history = History()
    history.follows(began=4.0, lost=30.0, recoveries=2, seconds=7.0)
    assert history.was_lost
    waiting = history.figures(33.0)
    assert (waiting.recoveries, waiting.recovery_seconds) == (2, 10.0)
    history.begins(35.0)
    assert not history.was_lost
    said = history.summary(44.0)
    assert (said["recoveries"], said["recovery_seconds"]) == (3, 12.0)
    assert said["goodput"] == pytest.approx(28 / 40)
    assert history.start_seconds == 4.0


def test_one_that_comes_after_a_process_that_never_trained_begins_the_run() -> None:
    history = History()
    history.follows(began=math.nan, lost=30.0, recoveries=0, seconds=0.0)
    history.begins(35.0)
    assert history.start_seconds == 35.0
    assert not history.was_lost
    assert history.summary(44.0)["goodput"] == 1.0
