"""Schedules: where they start, pass and end."""

import dataclasses
import math

import numpy as np
import pytest

from ps_dqn.config import Config, Exploration
from ps_dqn.config.topology import Rungs
from ps_dqn.worker.playing import schedules

KINDS = ("linear", "cosine", "exponential")


@pytest.mark.parametrize("step", [0, 50, 100, 10**9])
def test_constant_stays_at_its_start(step: int) -> None:
    assert schedules.value("constant", 0.3, 0.1, 100, step) == 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_begins_at_the_start_and_stays_at_the_end(kind: str) -> None:
    assert schedules.value(kind, 0.3, 0.1, 7, 0) == pytest.approx(0.3, rel=1e-15)
    for step in (7, 8, 10**9):
        assert schedules.value(kind, 0.3, 0.1, 7, step) == 0.1


@pytest.mark.parametrize(
    ("kind", "step", "expected"),
    [
        ("linear", 25, 8.0 - 0.25 * 6.0),
        ("linear", 50, 5.0),
        ("linear", 99, 8.0 - 0.99 * 6.0),
        ("cosine", 25, 5.0 + 3.0 * math.sqrt(0.5)),  # cos(π/4)
        ("cosine", 50, 5.0),
        ("cosine", 75, 5.0 - 3.0 * math.sqrt(0.5)),
        ("exponential", 25, 8.0 * math.sqrt(0.5)),  # 8 to 2 is twice a half in 100 steps
        ("exponential", 50, 4.0),
        ("exponential", 75, 4.0 * math.sqrt(0.5)),
    ],
)
def test_the_way_down(kind: str, step: int, expected: float) -> None:
    assert schedules.value(kind, 8.0, 2.0, 100, step) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("kind", "half"), [("linear", 5.0), ("cosine", 5.0), ("exponential", 4.0)])
def test_may_rise(kind: str, half: float) -> None:
    assert schedules.value(kind, 2.0, 8.0, 4, 2) == pytest.approx(half, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_may_stand_still(kind: str) -> None:
    assert [schedules.value(kind, 0.3, 0.3, 4, step) for step in range(6)] == [0.3] * 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_way_of_no_steps_is_at_its_end(kind: str) -> None:
    assert schedules.value(kind, 0.3, 0.1, 0, 0) == 0.1


def test_linear_and_cosine_may_end_at_zero() -> None:
    assert schedules.value("linear", 1.0, 0.0, 4, 1) == 0.75
    assert schedules.value("cosine", 1.0, 0.0, 2, 1) == pytest.approx(0.5)


@pytest.mark.parametrize(("start", "end"), [(1.0, 0.0), (0.0, 1.0), (-1.0, -2.0), (1.0, -1.0)])
@pytest.mark.parametrize("step", [0, 100])
def test_exponential_refuses_ends_that_no_factor_connects(
    start: float, end: float, step: int
) -> None:
    with pytest.raises(ValueError, match=f"from {start} to {end}: both must be above 0"):
        schedules.value("exponential", start, end, 10, step)


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="no schedule is called 'step'"):
        schedules.value("step", 1.0, 0.5, 10, 3)


def test_the_ladder_is_over_the_environments_of_a_worker() -> None:
    def ladder(epsilon: float, num_envs: int) -> np.ndarray:
        return schedules.ladder(epsilon, Rungs(0, num_envs, num_envs))

    assert ladder(0.4, 8) == pytest.approx([0.4 ** (1 + i) for i in range(8)])
    assert ladder(0.4, 3) == pytest.approx([0.4, 0.4**4.5, 0.4**8])
    for epsilon in (0.0, 1.0):
        assert (ladder(epsilon, 4) == epsilon).all()
    both = [schedules.ladder(0.4, Rungs(first, 4, 8)) for first in (0, 4)]
    assert np.concatenate(both) == pytest.approx(ladder(0.4, 8)), "of two actors"
    options = Exploration(epsilon_start=0.5, epsilon_schedule="constant", epsilon_ladder=True)
    two = Rungs(0, 2, 2)
    assert schedules.epsilon(options, 10, 100, two) == pytest.approx([0.5, 0.5**8])
    options = dataclasses.replace(options, epsilon_ladder=False)
    assert schedules.epsilon(options, 10, 100, two).tolist() == [0.5, 0.5]


def test_a_decay_may_be_a_share_of_the_run() -> None:
    config = Config.from_values(
        {
            "total_env_steps": 1_000,
            "epsilon_decay_steps": "10%",
            "learning_rate": 1.0,
            "learning_rate_end": 0.0,
            "learning_rate_decay_steps": "50%",
        }
    )
    config = Config.from_json(config.to_json())
    found = schedules.at(config, env_steps=100)
    assert found.progress == 0.1
    assert found.learning_rate == pytest.approx(0.8)
    assert found.epsilons.tolist() == [0.05] * 64
    longer = dataclasses.replace(config.run, total_env_steps=2_000)
    found = schedules.at(dataclasses.replace(config, run=longer), env_steps=100)
    assert found.epsilons == pytest.approx([(1.0 + 0.05) / 2] * 64)
