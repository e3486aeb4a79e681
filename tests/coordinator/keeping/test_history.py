"""What a run's recoveries cost."""

import pickle
import time

import pytest

from ps_dqn.cluster.spec import Task
from ps_dqn.coordinator.keeping.history import History
from ps_dqn.coordinator.keeping.recovery import Recovered
from ps_dqn.profiling import timeline
from ps_dqn.profiling.timeline import Timeline
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


def test_a_process_that_comes_after_another_goes_on_with_its_figures() -> None:
    lost = History()
    lost.begins(4.0)
    lost.lost(counters(640), 15.0)
    lost.recovered(Recovered(40, 0, 9), counters(512))
    lost.failures.noticed(Task("worker", 1), "lost")
    lost.begins(20.0)

    history = History()
    history.follows(pickle.loads(pickle.dumps(lost.memory(counters(900)))), lost=30.0)
    assert history.was_lost
    waiting = history.figures(33.0)
    assert (waiting.recoveries, waiting.recovery_seconds) == (1, 8.0)
    assert history.recovered(Recovered(2, 0, 30), counters(890)) == 10
    history.begins(35.0)
    history.failures.work([Task("worker", 1)])
    assert not history.was_lost
    said = history.summary(44.0)
    assert (said["recoveries"], said["recovery_seconds"], said["updates_lost"]) == (2, 10.0, 138)
    assert said["pushes_again"] == 42
    assert said["goodput"] == pytest.approx(30 / 40)
    [failure] = said["task_failures"]
    assert (failure["task"], failure["recoveries"]) == ("worker 1", 1)
    assert history.start_seconds == 4.0


def test_one_that_was_lost_without_a_connection_had_been_away_since() -> None:
    lost = History()
    lost.begins(4.0)
    lost.lost(counters(640), 15.0)
    history = History()
    history.follows(lost.memory(counters(0)), lost=18.0)
    assert history.recovered(Recovered(0, 0, 1), counters(600)) == 40
    history.begins(25.0)
    said = history.summary(25.0)
    assert (said["recoveries"], said["recovery_seconds"]) == (1, 10.0)


def test_one_that_comes_after_a_process_that_never_trained_begins_the_run() -> None:
    history = History()
    history.follows(None, lost=30.0)
    history.begins(35.0)
    assert history.start_seconds == 35.0
    assert not history.was_lost
    assert history.summary(44.0)["goodput"] == 1.0


def test_what_happened_first_was_in_the_process_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_own", Timeline(time.perf_counter()))
    timeline.instant("first closure scheduled", 6.0)
    memory = pickle.loads(pickle.dumps(History().memory(counters(900))))
    monkeypatch.setattr(timeline, "_own", Timeline(time.perf_counter()))
    History().follows(memory, lost=30.0)
    timeline.instant("first closure scheduled", 102.0)
    assert timeline.record().instants == {"first closure scheduled": 6.0}
