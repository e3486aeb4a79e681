"""What is varied, and the points that come of it."""

import math
import pathlib
import random

import pytest

from ps_dqn.errors import UsageError
from ps_dqn.sweep import checking, space, trial
from ps_dqn.sweep.space import Choices, Range

WHOLE = frozenset({"n_step"})


def test_values_and_ranges() -> None:
    assert space.parse(
        [
            "learning_rate=1e-3,0.0003",
            "--hidden_sizes=64,64|128,128",
            "gamma=0.9..0.999",
            "optimizer_epsilon=1e-8..1e-3:log",
            "n_step=1..10",
            "env_id=A..B",
        ],
        WHOLE,
    ) == [
        Choices("learning_rate", ("1e-3", "0.0003")),
        Choices("hidden_sizes", ("64,64", "128,128")),
        Range("gamma", 0.9, 0.999),
        Range("optimizer_epsilon", 1e-8, 1e-3, is_log=True),
        Range("n_step", 1, 10, is_whole=True),
        Choices("env_id", ("A..B",)),
    ]


@pytest.mark.parametrize(
    ("varied", "said"),
    [
        (["learning_rate"], "must be a flag and its values"),
        (["=3"], "must be a flag and its values"),
        (["gamma="], "must be a flag and its values"),
        (["seed=1,2"], "say --seeds"),
        (["run_dir=a,b"], "is not varied so"),
        (["gamma=0.9", "gamma=0.8"], "gamma is varied already"),
        (["gamma=0.9,0.9"], "has a value twice"),
        (["gamma=0.9..0.5"], "must go from a number to a larger one"),
        (["tau=0..0.1:log"], "has no logarithm at 0"),
        (["n_step=1..2.5"], "n_step takes whole numbers"),
    ],
)
def test_what_cannot_be_varied_so_is_refused(varied: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        space.parse(varied, WHOLE)


def test_a_grid_has_every_combination() -> None:
    found = list(space.grid(space.parse(["a=1,2", "b=x,y", "n_step=3..9"], WHOLE)))
    assert len(found) == 8  # of the range, the ends
    assert found[0] == ("--a=1", "--b=x", "--n_step=3")
    assert found[-1] == ("--a=2", "--b=y", "--n_step=9")
    assert list(space.grid([])) == [()]  # one point: as it is


def test_random_points_are_the_same_with_the_same_seed_and_go_on_with_more() -> None:
    dimensions = space.parse(["rate=1e-5..1e-1:log", "n_step=1..5", "a=x,y"], WHOLE)
    few, many = space.drawn(dimensions, 10, 3), space.drawn(dimensions, 200, 3)
    assert many[:10] == few
    assert len(set(many)) == 200
    assert space.drawn(dimensions, 10, 4) != few
    rates = [float(point[0].partition("=")[2]) for point in many]
    assert 1e-5 <= min(rates) < 3e-5
    assert 3e-2 < max(rates) <= 1e-1
    # Each magnitude is as likely.
    assert 0.35 < sum(math.log10(rate) < -3 for rate in rates) / 200 < 0.65
    assert {point[1] for point in many} == {f"--n_step={n}" for n in range(1, 6)}


def test_there_are_no_more_points_than_there_are() -> None:
    assert sorted(space.drawn([Choices("a", ("1", "2"))], 9, 0)) == [("--a=1",), ("--a=2",)]


def test_numbers_of_a_range_are_short() -> None:
    source = random.Random(1)
    assert all(len(Range("x", 0.001, 0.1, True).draw(source)) <= 9 for _ in range(50))
    # Rounded they may be beyond its ends, which may be refused, or mean something else.
    close = Range("gamma", 0.9, 0.99999)
    assert close.ends == ("0.9", "0.99999")
    assert close.shown(0.999987) == "0.999987"
    assert close.shown(0.98765432) == "0.9877"


def test_a_trial_has_a_place_of_its_own(tmp_path: pathlib.Path) -> None:
    plain = trial.of(("--a=1", "--b=0.5"), 3, tmp_path)
    assert plain.folder == tmp_path / "a=1,b=0.5" / "seed-3"
    assert plain.output == tmp_path / "a=1,b=0.5" / "seed-3.out"
    assert plain.label == "a=1, b=0.5, seed 3"
    assert trial.of((), 0, tmp_path).folder == tmp_path / "run" / "seed-0"
    # What no folder may be called, and what would be too long, is told apart all the same.
    odd = {trial.of((f"--flagfile=a{c}b",), 0, tmp_path).folder.parent.name for c in "/ :"}
    assert len(odd) == 3
    assert all(name.startswith("flagfile=a_b-") for name in odd)
    long = {trial.of((f"--a={'x' * 300}{i}",), 0, tmp_path).folder.parent.name for i in range(2)}
    assert len(long) == 2
    assert max(map(len, long)) < 200


def test_steps_of_an_experiment_are_whole_numbers() -> None:
    [found] = space.parse(["epsilon_decay_steps=10000..200000"], checking.whole())
    assert found.ends == ("10000", "200000")
