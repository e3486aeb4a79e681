"""Where Optuna looks, and that it knows what was before."""

import math
import pathlib

import pytest

from ps_dqn.errors import UsageError
from ps_dqn.sweep import search, space

WHOLE = frozenset({"n_step"})


def _value(point: space.Point) -> float:
    """The best is a learning rate of 0.01 with n_step=4."""
    rate, steps, _ = (word.partition("=")[2] for word in point)
    return -abs(math.log10(float(rate)) + 2) - abs(int(steps) - 4)


@pytest.fixture
def dimensions() -> list[space.Dimension]:
    return space.parse(["rate=1e-5..1:log", "n_step=1..8", "a=x,y"], WHOLE)


# The storage is an experiment of Optuna's, which warns of it.
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def test_it_finds_what_is_good(dimensions: list[space.Dimension], tmp_path: pathlib.Path) -> None:
    study, values = search.Optuna(dimensions, 40, 0, tmp_path), []
    while (point := study.ask()) is not None:
        values.append(_value(point))
        study.tell(point, values[-1])
    assert len(values) == 40
    # Some 3.5 below the best in the mean at random.
    assert sum(values[-10:]) / 10 > sum(values[:10]) / 10 + 1.0


def test_points_that_it_knows_are_asked_again(
    dimensions: list[space.Dimension], tmp_path: pathlib.Path
) -> None:
    first = search.Optuna(dimensions, 4, 0, tmp_path)
    asked = [first.ask() for _ in range(3)]
    assert asked[0] is not None
    assert asked[2] is not None
    first.tell(asked[0], 1.0)
    first.tell(asked[2], None)  # has failed, which is an answer

    again = search.Optuna(dimensions, 4, 0, tmp_path)
    assert [again.ask() for _ in range(3)] == asked  # their runs belong to the sweep
    fresh = again.ask()
    assert fresh not in (None, *asked)
    assert again.ask() is None
    for point, score in zip([*asked, fresh], (5.0, 2.0, 6.0, 3.0), strict=True):
        assert point is not None
        again.tell(point, score)
    # What it knew already stays.
    assert [each.value for each in again._study.trials] == [1.0, 2.0, None, 3.0]


def test_without_optuna_it_says_what_to_install(
    dimensions: list[space.Dimension], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(UsageError, match=r"--search=optuna: needs the extra: pip install"):
        search.Optuna(dimensions, 4, 0, tmp_path)
