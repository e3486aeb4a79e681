"""How many training closures are on their way, and how long they are."""

from typing import Any

import pytest
from support.reports import report

from ps_dqn.config import Config, ParameterServer
from ps_dqn.coordinator.scheduling.closure_length import RECENT_REPORTS, ClosureLength
from ps_dqn.coordinator.scheduling.window import Window
from ps_dqn.telemetry.metrics import WORK
from ps_dqn.telemetry.report import Report

FAR = 10**9  # environment steps that are left


def took(seconds: float, pushes: int = 2) -> Report:
    """A closure whose pushes took so long each."""
    return report(pushes=pushes, time_gradient=seconds * pushes)


def opened(window: Window, left: int = FAR) -> list[int]:
    """The pushes of the closures that fit the window."""
    pushes = []
    while window.has_room(left):
        pushes.append(window.open(safe=0).pushes)
    return pushes


@pytest.mark.parametrize(
    ("seconds", "pushes"),
    [(0.3, 1), (0.2, 1), (0.19, 2), (0.04, 5), (0.035, 6), (0.2 / 64, 64), (1e-9, 64), (0.0, 64)],
)
def test_closures_of_several_workers_are_long_enough(seconds: float, pushes: int) -> None:
    length = ClosureLength(ParameterServer(), num_workers=2)
    assert length.pushes == 4, "before anything was measured"
    length.add(took(seconds))
    assert length.pushes == pushes


@pytest.mark.parametrize("phase", WORK)
def test_all_work_counts(phase: str) -> None:
    length = ClosureLength(ParameterServer(), num_workers=2)
    length.add(report(pushes=2, **{f"time_{phase}": 0.1}))
    assert length.pushes == 4


@pytest.mark.parametrize("phase", ["waiting", "evaluation"])
def test_what_is_no_work_does_not_count(phase: str) -> None:
    length = ClosureLength(ParameterServer(), num_workers=2)
    length.add(report(pushes=2, time_gradient=0.02, **{f"time_{phase}": 9.0}))
    assert length.pushes == 20


@pytest.mark.parametrize(("dispatch", "pushes"), [(0.0, 4), (0.001, 4), (0.0025, 10), (0.1, 64)])
def test_closures_are_many_times_as_long_as_their_dispatch(dispatch: float, pushes: int) -> None:
    length = ClosureLength(ParameterServer(), num_workers=2)
    length.add(report(pushes=2, time_gradient=0.1, time_dispatch=dispatch))
    assert length.pushes == pushes


def test_pushes_that_were_refused_or_withheld_are_work_too() -> None:
    length = ClosureLength(ParameterServer(), num_workers=2)
    length.add(report(refused=1, withheld_not_finite=1, withheld_outliers=2, time_gradient=0.4))
    assert length.pushes == 2


def test_a_closure_without_a_push_says_nothing() -> None:
    length = ClosureLength(ParameterServer(), num_workers=2)
    length.add(report(time_waiting=9.0, time_sampling=3.0))
    assert length.pushes == 4


def test_first_closures_that_compile_do_not_make_all_short() -> None:
    length = ClosureLength(ParameterServer(), num_workers=4)
    for _ in range(4):
        length.add(took(5.0))
    assert length.pushes == 1
    for _ in range(5):
        length.add(took(0.02))
    assert length.pushes == 10


def test_what_was_long_ago_is_forgotten() -> None:
    length = ClosureLength(ParameterServer(), num_workers=2)
    for seconds in (0.02, 0.1):
        for _ in range(RECENT_REPORTS):
            length.add(took(seconds))
    assert length.pushes == 2


@pytest.mark.parametrize(
    ("said", "num_workers", "pushes"), [(None, 1, 4), (7, 1, 7), (7, 3, 7), (1, 3, 1)]
)
def test_with_one_worker_or_a_number_that_is_said_nothing_adapts(
    said: int | None, num_workers: int, pushes: int
) -> None:
    window = Window(Config.from_values({"pushes_per_closure": said}), num_workers)
    window.measure(took(0.001))
    assert set(opened(window)) == {pushes}


@pytest.mark.parametrize(
    ("num_workers", "values", "most"),
    [(1, {}, 2), (3, {}, 6), (3, {"closures_per_worker": 1}, 3), (2, {"aggregation": "sync"}, 4)],
)
def test_each_worker_has_closures_on_their_way(
    num_workers: int, values: dict[str, Any], most: int
) -> None:
    window = Window(Config.from_values(values), num_workers)
    assert len(opened(window)) == most
    window.close(1)
    assert len(opened(window)) == 1


def test_every_push_has_a_ticket_of_its_own() -> None:
    window = Window(Config.from_values({}), num_workers=2)
    assert window.open(safe=3) == (1, 1, 4, 3, 0)
    window.measure(took(0.1))
    assert window.open(safe=3, others=1) == (5, 1, 2, 3, 1)
    assert window.open(safe=3) == (7, 1, 2, 3, 0)
    window.close(5)
    assert window.open(safe=3) == (9, 1, 2, 3, 0)
    window.close(1)
    assert window.open(safe=3) == (11, 7, 2, 3, 0), "the oldest that has not ended"


def test_no_closure_begins_where_those_on_their_way_make_all_steps_that_are_left() -> None:
    # A push of one of two workers is worth 32 updates of 8 steps.
    window = Window(Config.from_values({"update_period": 8, "local_updates": 64}), num_workers=2)
    assert opened(window, left=1024) == [4]
    window.measure(took(0.025))
    assert opened(window, left=1025) == [8], "12 pushes of 256 steps are on their way now"
    assert opened(window, left=12 * 256) == []
    window.close(1)
    assert opened(window, left=12 * 256) == [8]


def test_a_round_that_is_not_over_has_its_workers() -> None:
    window = Window(Config.from_values({"aggregation": "sync"}), num_workers=2)
    assert len(opened(window, left=0)) == 4


@pytest.mark.parametrize(("eval_period", "pushes"), [(5_000, 4), (1_000, 1), (100_000, 64)])
def test_what_is_on_its_way_is_no_more_than_between_two_evaluations(
    eval_period: int, pushes: int
) -> None:
    config = Config.from_values({"eval_period": eval_period}).shared_by(2)
    window = Window(config, num_workers=2)  # 256 env steps a push, four closures
    window.measure(report(pushes=1, time_gradient=1e-6, time_dispatch=1.0))
    assert window.open(safe=0).pushes == pushes
