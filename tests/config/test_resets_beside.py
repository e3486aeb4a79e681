"""Resets and ways of returns that do not go with other options: each refused with its one line."""

from typing import Any

import pytest
from support.refusals import refused

from ps_dqn.config import Config, Resets, capacity, checks
from ps_dqn.errors import UsageError

GOOD = {"reset_period": 1000}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"reset_period": -1},
            "--reset_period=-1: must be 0 or more",
        ),
        (
            {"reset_shrink": 0.8},
            "--reset_shrink=0.8: has no effect without --reset_period; leave it out (its default "
            "is 0.5)",
        ),
        (
            {**GOOD, "network": "my.module:net"},
            "--reset_period=1000: nobody says which layers of --network=my.module:net are its "
            "head, and how they begin; leave it out",
        ),
        (
            {**GOOD, "recurrent_size": 8},
            "--reset_period=1000: an LSTM's weights do not begin independent of each other, and so "
            "cannot be drawn anew by the parameter servers; leave it out, or --recurrent_size=8",
        ),
        (
            {"n_step_start": 5, "n_step": 5},
            "--n_step_start=5: is --n_step, so nothing would change; leave it out",
        ),
        (
            {"n_step_start": 5, "n_step": 1, "traces": "peng", "recurrent_size": 8},
            "--n_step_start=5: --traces=peng is for one-step returns; leave one of them out",
        ),
        (
            {"gamma_start": 0.99, "gamma": 0.99},
            "--gamma_start=0.99: must be less than --gamma=0.99",
        ),
        (
            {"gamma_start": 0.9, "gamma": 1.0},
            "--gamma=1: with --gamma_start, less than 1: its distance to 1 shrinks by the same "
            "factor at every update, and never is 0",
        ),
        (
            {"anneal_updates": 5, **GOOD},
            "--anneal_updates=5: has no effect without --n_step_start or --gamma_start; leave it "
            "out (its default is 10000)",
        ),
        (
            {
                "gamma_start": 0.9,
                "replay": "rollout",
                "target_update_period": 0,
                "double_dqn": False,
                "n_step": 1,
            },
            "--gamma_start=0.9: has no effect without --replay=uniform or prioritized or recent; "
            "leave it out (its default is 0.0)",
        ),
        (
            {"n_step_start": 30, "replay_capacity": 1900, "num_envs": 64},
            "--replay_capacity=1900: 64 environments with --n_step_start=30 need 2048 or more",
        ),
    ],
)
def test_what_cannot_be(values: dict[str, Any], said: str) -> None:
    assert refused(**values) == said


@pytest.mark.parametrize(
    ("values", "num_workers", "at_once"),
    [
        ({"local_updates": 64}, 1, 64),
        ({"local_updates": 64}, 2, 64),  # in rounds, which are as far as one worker's push
        ({"local_updates": 64, "aggregation": "async"}, 2, 32),
    ],
)
def test_resets_that_come_before_anything_is_learned(
    values: dict[str, Any], num_workers: int, at_once: int
) -> None:
    for period in (at_once - 1, at_once):
        config = Config.from_values({"reset_period": period, **values})
        if period == at_once:
            checks.check_workers(config, num_workers, is_remote=False)
            return
        with pytest.raises(UsageError) as caught:
            checks.check_workers(config, num_workers, is_remote=False)
        assert str(caught.value) == (
            f"--reset_period={period}: {at_once} sequential updates arrive at once "
            f"(--local_updates=64), and nothing would be learned between two resets; say many "
            f"times {at_once}"
        )


def test_bbfs_own() -> None:
    bbf = {"n_step": 3, "n_step_start": 10, "gamma": 0.997, "gamma_start": 0.97}
    config = Config.from_values({**bbf, "reset_period": 40_000})
    assert capacity.item(config).n_step == 10, "rows for the longest returns"
    assert config.resets.anneal
    assert not Config().resets.anneal


def test_resets_are_counted_by_updates() -> None:
    options = Resets(reset_period=10)
    assert [options.number(i) for i in (0, 9, 10, 25)] == [0, 0, 1, 2]
    assert [options.since(i) for i in (0, 9, 10, 25)] == [0, 9, 0, 5]
    assert (Resets().number(99), Resets().since(99)) == (0, 99)
