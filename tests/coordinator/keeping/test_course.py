"""What is due when, over the connections of a run."""

import types
from typing import Any

import numpy as np
import pytest
from support.scripted_run import ScriptedRun, training

from ps_dqn.config import Config, Run
from ps_dqn.coordinator.evaluating.greedy_play import Evaluation
from ps_dqn.coordinator.keeping.course import Course
from ps_dqn.state import Counters


def at(env_steps: int) -> Counters:
    return Counters(1, 1, env_steps, 1, 1)


@pytest.fixture
def course() -> Course:
    return Course(Run(metrics_period=50, eval_period=400))


def test_what_is_due_comes_a_period_after_it_was_done(course: Course) -> None:
    course.begin(at(0), 0.0)
    assert not course.evaluates(399)
    assert course.evaluates(410)
    assert not course.evaluates(809)
    assert course.evaluates(810)
    assert [course.writes(each) for each in (49, 50, 99, 100)] == [False, True, False, True]


def test_connections_that_are_lost_put_nothing_off(course: Course) -> None:
    for env_steps in range(0, 400, 40):
        course.begin(at(env_steps), 1.0)
        assert not course.evaluates(env_steps + 39)
    course.begin(at(400), 1.0)
    assert course.evaluates(401)


def test_one_that_goes_back_waits_no_longer_than_a_period(course: Course) -> None:
    course.begin(at(0), 0.0)
    assert course.evaluates(10_000)
    course.begin(at(100), 1.0)
    assert course.evaluates(500)


def test_a_process_goes_on_where_another_one_has_come(course: Course) -> None:
    course.begin(at(1_150), 0.0)
    assert not course.evaluates(1_199)
    assert course.evaluates(1_200)


def test_an_evaluation_that_was_lost_is_made_at_once(course: Course) -> None:
    course.begin(at(0), 0.0)
    assert course.evaluates(400)
    course.evaluation_lost()
    course.begin(at(450), 1.0)
    assert course.evaluates(451)


def test_one_whose_confirmation_was_lost_counts_once(course: Course) -> None:
    course.begin(at(0), 0.0)
    course.last, course.in_a_row = Evaluation(at(400), np.zeros(2)), 3
    course.evaluation_lost(confirms=True)
    course.begin(at(400), 1.0)
    assert course.in_a_row == 2
    assert course.evaluates(401)


def test_evaluations_in_a_row_are_of_what_the_run_still_has(course: Course) -> None:
    course.begin(at(0), 0.0)
    course.last, course.in_a_row = Evaluation(at(400), np.zeros(2)), 2
    course.begin(at(400), 1.0)
    assert course.in_a_row == 2
    course.begin(at(399), 2.0)
    assert (course.in_a_row, course.last) == (0, None)


def test_what_was_heard_before_a_loss_is_written_and_counts_in_the_end(tmp_path: Any) -> None:
    config = Config.from_values(
        {"total_env_steps": 600, "eval_period": 10**6, "metrics_period": 10**6}
    )
    written: list[float] = []
    course, scripted = Course(config.run), ScriptedRun([[9.0]] * 9)
    first = training(config, 1e9, scripted, tmp_path, course=course)
    keep(first, written)
    hear, heard = first._hear, [0]

    def lose() -> None:
        heard[0] += 1
        if heard[0] > 3:
            raise ConnectionError
        hear()

    first._hear = lose  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        first.run()
    assert written == []
    first.lose()
    scripted._waiting.clear()  # what was on its way is lost
    second = training(config, 1e9, scripted, tmp_path, course=course)
    keep(second, written)
    result = second.run()
    assert written[0] == 30
    assert sum(written) > 30
    assert sum(row["updates_made"] for row in result.workers.values()) == sum(written)


def keep(run: Any, written: list[float]) -> None:
    """Notes the updates of each row that a run writes."""

    def trained(progress: Any, *_: Any) -> None:
        rows = progress.interval.ledger.rows().values()
        written.append(sum(row["updates_made"] for row in rows))

    run._observer = types.SimpleNamespace(
        **dict.fromkeys(("begin", "show", "saved", "say", "evaluated"), lambda *_: None),
        moments=1.0,
        trained=trained,
    )
