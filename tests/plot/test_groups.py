"""Which runs belong together, and where their curves begin and end."""

import pathlib

import pytest
from support.made_runs import evaluations, make

from ps_dqn.plot import groups, scores
from ps_dqn.telemetry import measured

METRIC = "eval/episode_return"


def _groups(folder: pathlib.Path) -> list[groups.Group]:
    return groups.of([measured.read(each) for each in sorted(folder.iterdir())])


def test_runs_that_only_seeds_tell_apart_are_together(tmp_path: pathlib.Path) -> None:
    for seed in range(3):
        make(tmp_path / f"a{seed}", f"--seed={seed}", "--n_step=3", rows=evaluations(1.0))
    make(tmp_path / "b0", "--seed=0", "--n_step=5", "--noisy", rows=evaluations(1.0))
    make(tmp_path / "b1", "--seed=0", "--n_step=5", "--noisy", rows=evaluations(1.0))
    make(tmp_path / "c", "--env_id=Acrobot-v1", "--gamma=0.5", rows=evaluations(1.0))

    found = [(group.env_id, group.label, group.size) for group in _groups(tmp_path)]

    # What differs from another environment's runs is not said.
    assert found == [
        ("CartPole-v1", "n_step=3, noisy=false", "3 seeds"),
        ("CartPole-v1", "n_step=5, noisy=true", "2 runs of 1 seed"),
        ("Acrobot-v1", "", "1 seed"),
    ]


def test_a_setting_without_a_value_differs_from_one(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b", "--replay_capacity=9000")
    assert [each.label for each in _groups(tmp_path)] == [
        "replay_capacity=",
        "replay_capacity=9000",
    ]


def test_a_curve_ends_where_a_run_ends_that_was_not_solved(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "a", "--seed=1", rows=evaluations(0, 10, 20, 30))
    make(tmp_path / "b", "--seed=2", rows=evaluations(0, 30, 60))
    make(tmp_path / "c", "--seed=3", rows=evaluations(0, 90), reason="solved")

    (group,) = _groups(tmp_path)
    curve = groups.curve(group, "env_steps", METRIC)

    assert (curve.x[0], curve.x[-1]) == (1000, 3000)
    assert curve.mean[-1] == pytest.approx((20 + 60 + 90) / 3)  # the solved one stays there
    assert (curve.low[-1], curve.high[-1]) == (20, 90)
    assert len(curve.x) == groups.POINTS


def test_where_all_were_solved_the_slowest_says_the_end(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "a", "--seed=1", rows=evaluations(0, 100), reason="solved")
    make(tmp_path / "b", "--seed=2", rows=evaluations(0, 50, 100), reason="solved")
    (group,) = _groups(tmp_path)
    assert groups.curve(group, "updates", METRIC).x[-1] == 375


def test_a_single_evaluation_is_a_point(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "a", rows=evaluations(5.0))
    (group,) = _groups(tmp_path)
    curve = groups.curve(group, "seconds", METRIC)
    assert (curve.x.tolist(), curve.mean.tolist()) == ([1.0], [5.0])


def test_scores(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "a", "--seed=1", rows=evaluations(0, 80, 40))
    make(tmp_path / "b", "--seed=2", rows=evaluations(0, 60, 60, seconds=3.0))
    (group,) = _groups(tmp_path)

    score = scores.score(group, METRIC)

    assert (score.runs, score.at_end, score.highest, score.overall) == (2, 50, 70, 47.5)
    assert (score.at_end_low, score.at_end_high) == (40, 60)
    assert (score.env_steps, score.seconds) == (3000, 6)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345, "0.123"), (-21.04, "-21.0"), (475.0, "475.0"), (12345.6, "12,346")],
)
def test_numbers_are_short_and_their_thousands_apart(value: float, shown: str) -> None:
    assert scores.number(value) == shown
