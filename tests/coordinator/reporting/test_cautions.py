"""What people are told of learning that has gone wrong, once."""

import pytest
from support.reports import report

from ps_dqn.config import Config
from ps_dqn.coordinator.reporting.cautions import Cautions

ATOMS = {"v_min": -1.5, "v_max": 20.0}


def said(*reports: dict[str, float], distribution: str = "c51") -> list[str]:
    lines: list[str] = []
    config = Config.from_values({"value_distribution": distribution, **ATOMS})
    cautions = Cautions(config, lines.append)
    for each in reports:
        cautions.hear(report(**each))
    return lines


def test_pushes_that_are_not_finite_are_told_of_once() -> None:
    [line] = said({"worker": 0}, *[{"worker": 3, "withheld_not_finite": 2}] * 3)
    assert line.startswith("worker 3 keeps back pushes that are not finite: look at ")


def test_a_full_disk_of_a_worker_is_told_of_once() -> None:
    assert said({"worker": 0}, *[{"worker": 3, "failed_writes": 1}] * 3) == [
        "worker 3 cannot write its files: training goes on, and its log says why"
    ]


@pytest.mark.parametrize("distribution", ["c51", "hl_gauss"])
def test_returns_that_leave_the_atoms_for_long_are_told_of_once(distribution: str) -> None:
    heard = {"worker": 0, "episodes": 60, "returns_outside": 7}
    [line] = said(*[heard] * 6, distribution=distribution)
    assert line == (
        "returns leave the atoms: 14 of 120 episodes had discounted returns outside of "
        "--v_min=-1.5 to --v_max=20 from more than a tenth of their steps, which "
        f"{distribution} cannot tell apart; say wider ones"
    )


@pytest.mark.parametrize("outside", [0, 5, 6])
def test_a_few_returns_outside_are_no_reason(outside: int) -> None:
    assert not said(*[{"worker": 0, "episodes": 60, "returns_outside": outside}] * 6)
    assert not said({"worker": 0, "episodes": 99, "returns_outside": 99})


def test_overflows_that_no_loss_scale_prevents_are_told_of_once() -> None:
    assert not said({"worker": 1, "skipped_updates": 4, "loss_scale": 2.0})
    assert not said({"worker": 1, "loss_scale": 1.0})
    [line] = said(*[{"worker": 1, "skipped_updates": 4, "loss_scale": 1.0}] * 3)
    assert line == (
        "worker 1 skips updates that overflow float16 even with a loss scale of 1: say "
        "--precision=bfloat16, which has the range of float32"
    )
