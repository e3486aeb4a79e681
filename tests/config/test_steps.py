"""Lengths of schedules that are neither steps nor a share of the run."""

import pytest

from ps_dqn.config import Config, Exploration
from ps_dqn.errors import UsageError


@pytest.mark.parametrize("value", ["0%", "101%", "half", "%", "-5%", "1e1%"])
def test_what_is_no_share_of_a_run(value: str) -> None:
    says = f"--epsilon_decay_steps={value}: must be a whole number of environment steps, or a share"
    with pytest.raises(UsageError) as caught:
        Config.from_values({"epsilon_decay_steps": value})
    assert str(caught.value).startswith(says)


def test_no_steps_at_all_are_refused() -> None:
    with pytest.raises(UsageError, match="--learning_rate_decay_steps=0: must be 1 or more"):
        Config.from_values({"learning_rate_decay_steps": 0})


@pytest.mark.parametrize(
    ("said", "total", "expected"),
    [
        (None, 10_000, 5_000),
        (None, 100_001, 50_000),
        (None, 10_000_000, 50_000),
        (None, 1, 1),
        ("25%", 10_000_000, 2_500_000),
        (70_000, 10_000, 70_000),
    ],
)
def test_how_long_epsilon_decays(said: int | str | None, total: int, expected: int) -> None:
    assert Exploration(epsilon_decay_steps=said).decay(total) == expected
