"""What the loop decides after an evaluation, and what it has heard before it shows anything."""

import pathlib

import pytest
from support.scripted_run import LateRun, ScriptedRun, training

from ps_dqn.config import Config
from ps_dqn.coordinator import loop
from ps_dqn.coordinator.reporting.result import Result
from ps_dqn.run.checkpoints import Checkpoints

TARGET = 10.0
GOOD, BAD = [9.0, 12.0], [9.0, 9.0]
SHORT = {
    **{"total_env_steps": 600, "update_period": 0.1},
    **{"eval_period": 10**6, "confirm_episodes": 0},
}


@pytest.fixture
def evaluated(tmp_path: pathlib.Path):
    """Trains, with an evaluation after each closure, until the target or its last evaluation."""

    def run(*evaluations: list[float]) -> tuple[Result, ScriptedRun]:
        config = Config.from_values(
            {
                "eval_period": 100,
                "total_env_steps": 100 * len(evaluations),
                "eval_episodes": 2,
                "confirm_episodes": 0,
            }
        )
        scripted = ScriptedRun(evaluations)
        return training(config, TARGET, scripted, tmp_path).run(), scripted

    return run


def test_three_good_evaluations_in_a_row_solve_the_task(evaluated) -> None:
    result, scripted = evaluated(GOOD, GOOD, GOOD, BAD, BAD)
    assert result.reason == "solved"
    assert scripted.num_evaluations == 3


def test_good_evaluations_count_from_the_last_bad_one(evaluated) -> None:
    result, scripted = evaluated(GOOD, BAD, GOOD, GOOD, BAD, GOOD, GOOD, GOOD, BAD, BAD)
    assert result.reason == "solved"
    assert scripted.num_evaluations == 8


def test_two_good_ones_are_not_enough(evaluated) -> None:
    result, _ = evaluated(GOOD, GOOD, BAD, GOOD, GOOD)
    assert result.reason == "finished"


def test_of_equally_good_networks_the_newer_is_the_best(evaluated, tmp_path: pathlib.Path) -> None:
    result, _ = evaluated([5.0, 7.0], [8.0, 8.0], [7.0, 9.0], [3.0, 3.0])
    best = Checkpoints(tmp_path, keep=1).best()
    assert result.best_return == best.eval_return == 8.0
    assert best.state.average.tolist() == [3, 3, 3]


def test_closures_follow_from_what_reports_say(tmp_path: pathlib.Path) -> None:
    config = Config.from_values(SHORT)
    scripted = ScriptedRun([BAD])
    training(config, TARGET, scripted, tmp_path, num_workers=2).run()
    pushes = [each.pushes for each in scripted.tickets]
    # Four are on their way before the first report, whose push took no time at all.
    assert pushes[:6] == [4, 4, 4, 4, 64, 64]
    assert [each.first for each in scripted.tickets[:6]] == [1, 5, 9, 13, 17, 81]
    assert [each.oldest for each in scripted.tickets[:6]] == [1, 1, 1, 1, 5, 9]


def test_all_that_has_come_is_heard_before_rates_are_shown(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports that wait while a checkpoint is saved would else be of the instant after it."""
    unheard: list[int] = []
    scripted = LateRun([BAD])
    config = Config.from_values(SHORT)
    run = training(config, TARGET, scripted, tmp_path, num_workers=2)
    monkeypatch.setattr(loop, "TICK_SECONDS", 1e-9)  # at each look
    monkeypatch.setattr(run._observer, "show", lambda _: unheard.append(scripted.unheard))
    run.run()
    assert len(unheard) > 2
    assert set(unheard) == {0}
