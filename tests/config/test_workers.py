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
            {"min_workers": 1},
            2,
            False,
            "--min_workers=1: goes with --cluster=remote alone, a cluster of this machine starts "
            "all of its workers",
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
    ],
)
def test_workers_that_it_can_have(
    values: dict[str, Any], num_workers: int, is_remote: bool
) -> None:
    checks.check_workers(Config.from_values(values), num_workers, is_remote)
