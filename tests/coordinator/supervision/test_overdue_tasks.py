"""Workers that do not go on with their closure, and tasks that do not say what they are asked."""

import time

import pytest
from support.watched import PS, WORKER, Watched

from ps_dqn.cluster.pulse import Heard
from ps_dqn.config.faults import FIRST_SECONDS, LEAST_SECONDS, USUAL_TIMES


@pytest.mark.parametrize(
    ("options", "slowest", "limit"),
    [
        ({}, None, FIRST_SECONDS),
        ({}, 0.1, LEAST_SECONDS),
        ({}, 10.0, USUAL_TIMES * 10.0),
        ({"worker_timeout": 7.0}, None, 7.0),
        ({"worker_timeout": 7.0}, 10.0, 7.0),
    ],
)
def test_how_long_a_closure_may_take(monkeypatch, options, slowest, limit):
    case = Watched(monkeypatch, is_local=True, **options)
    if slowest is not None:
        case.slowest[1] = slowest
    case.closures = {0: 0.0, 1: limit - 1}
    case.look()
    assert case.killed == []
    case.closures = {0: 0.0, 1: limit + 1}
    case.look()
    case.look()
    assert case.said == [f"worker 1 has not ended a closure in {limit + 1:.0f} s: it is ended"]
    assert case.killed == [WORKER]
    case.closures = {0: 0.0}
    case.look()
    case.closures = {1: limit + 1}
    case.look()
    assert case.killed == [WORKER, WORKER]


def test_a_worker_whose_result_never_comes_is_given_up(monkeypatch):
    """Else an evaluation would be under way for good, and no other one would begin."""
    case = Watched(monkeypatch, is_local=True)
    for seconds in (LEAST_SECONDS - 1, LEAST_SECONDS + 1, LEAST_SECONDS + 2):
        case.watchdog.look_at_results({0: 0.0, 1: seconds})
    assert case.said == [
        f"a result of worker 1 has not come in {LEAST_SECONDS + 1:.0f} s: it is ended"
    ]
    assert case.killed == [WORKER]
    assert [row.kind for row in case.failures.rows()] == ["overdue"]


@pytest.mark.parametrize("made", ["env_steps", "updates", "evaluation_steps"])
def test_a_closure_that_goes_on_may_take_as_long_as_it_does(monkeypatch, made):
    case, now = Watched(monkeypatch, is_local=True), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    case.slowest[1] = 1.0
    for made_by_now in range(10):
        now += LEAST_SECONDS - 1
        case.closures = {1: now - 1000.0}
        case.says(**{made: made_by_now})
        case.look()
    assert case.killed == []
    for _ in range(2):  # its thread answers that nothing has come to that
        now += LEAST_SECONDS / 2 + 1
        case.closures = {1: now - 1000.0}
        case.says(**{made: made_by_now})
        case.look()
    assert case.killed == [WORKER]
    assert case.said == ["worker 1 has not ended a closure in 652 s: it is ended"]
    [row] = case.failures.rows()
    assert row.detection_seconds == LEAST_SECONDS + 2


def test_what_a_worker_said_before_its_closure_began_does_not_count(monkeypatch):
    case = Watched(monkeypatch, is_local=True, worker_timeout=7.0)
    case.heard[WORKER] = Heard(time.monotonic() - 100, {"env_steps": 640})
    case.closures = {1: 6.0}
    case.look()
    assert case.killed == []
    case.closures = {1: 8.0}
    case.look()
    assert case.killed == [WORKER]


def test_a_remote_worker_that_is_late_loses_its_connections(monkeypatch):
    case = Watched(monkeypatch, is_local=False, worker_timeout=7.0)
    case.closures = {1: 8.0}
    case.look()
    assert case.cut == ["localhost:4"]


@pytest.mark.parametrize(
    ("task", "options", "limit"),
    [
        (PS, {}, LEAST_SECONDS),
        (PS, {"ps_timeout": 90.0}, 90.0),
        (WORKER, {}, FIRST_SECONDS),
        (WORKER, {"worker_timeout": 7.0}, 7.0),
    ],
)
def test_how_long_a_question_may_take(monkeypatch, task, options, limit):
    case = Watched(monkeypatch, is_local=True, **options)
    case.watchdog.look_at_questions({task: limit - 1})
    assert case.killed == []
    case.watchdog.look_at_questions({task: limit + 1})
    case.watchdog.look_at_questions({task: limit + 2})
    assert case.said == [f"{task} has not said what it was asked in {limit + 1:.0f} s: it is ended"]
    assert case.killed == [task]
    case.watchdog.look_at_questions({})
    case.watchdog.look_at_questions({task: limit + 1})
    assert case.killed == [task, task]
