"""Options that do not go with the workers of a run: each is refused with its one line."""

from typing import Any

import pytest

from ps_dqn.config import Config, checks
from ps_dqn.errors import UsageError


@pytest.mark.parametrize(
    ("values", "num_workers", "is_remote", "says"),
    [
        (
            {"aggregation": "sync", "backup_workers": 2},
            2,
            False,
            "--backup_workers=2: must be less than --num_workers=2, a round waits for the others",
        ),
        (
            {"min_workers": 3},
            2,
            True,
            "--min_workers=3: the run is for 2, so at most as many can be there",
        ),
        (
            {"aggregation": "trimmed_mean", "trim_fraction": 0.3},
            *(3, False),
            "--trim_fraction=0.3: takes nothing off rounds of 3 pushes; say 0.34 or more",
        ),
        (
            {"aggregation": "trimmed_mean", "backup_workers": 1},
            *(3, False),
            "--aggregation=trimmed_mean: has no effect on rounds of 2 pushes, of which one that is "
            "wrong cannot be told from the other; it needs three workers or more",
        ),
        (
            {"ps_recovery_timeout": 30.0},
            *(2, False),
            "--ps_recovery_timeout=30: goes with --cluster=remote alone, a cluster of this machine "
            "starts its parameter servers again by itself",
        ),
        (
            {"min_workers": 1},
            2,
            False,
            "--min_workers=1: goes with --cluster=remote alone, a cluster of this machine starts "
            "all of its workers",
        ),
        (
            {"target_update_period": 63, "local_updates": 64},
            2,  # in rounds, which are as far as one worker's push
            False,
            "--target_update_period=63: 64 sequential updates arrive at once (--local_updates=64), "
            "and the target would be copied after those; say 64 or more, or fewer --local_updates",
        ),
        (
            {"target_update_period": 31, "local_updates": 64, "aggregation": "async"},
            2,
            False,
            "--target_update_period=31: 32 sequential updates arrive at once (--local_updates=64), "
            "and the target would be copied after those; say 32 or more, or fewer --local_updates",
        ),
        (
            {"epsilon_ladder": True, "num_envs": 2},
            2,
            False,
            "--epsilon_ladder=true: has no effect where a worker has one environment; say a larger "
            "--num_envs_per_worker, or leave it out",
        ),
    ],
)
def test_workers_that_a_run_cannot_have(
    values: dict[str, Any], num_workers: int, is_remote: bool, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        checks.check_workers(Config.from_values(values), num_workers, is_remote)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("values", "num_workers", "is_remote"),
    [
        ({"aggregation": "sync", "backup_workers": 2}, 3, False),
        ({"min_workers": 2}, 2, True),
        ({}, 1, False),
        ({"target_update_period": 32, "local_updates": 64, "aggregation": "async"}, 2, False),
        ({"epsilon_ladder": True, "num_envs": 4}, 2, False),
    ],
)
def test_workers_that_it_can_have(
    values: dict[str, Any], num_workers: int, is_remote: bool
) -> None:
    checks.check_workers(Config.from_values(values), num_workers, is_remote)
