"""Who holds the parameters, and what goes with it."""

import pytest

from ps_dqn.config import Config, strategy
from ps_dqn.errors import UsageError

ALL_REDUCE = {"strategy": "all_reduce", "local_updates": 1}


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_that_add_up_make_rounds(workers: int) -> None:
    options = Config.from_values(ALL_REDUCE).shared_by(workers).parameter_server
    assert options.aggregation == "sync"
    assert options.is_synchronous
    assert not options.has_servers
    assert strategy.describe(options) == ["workers add up their gradients (--strategy=all_reduce)"]


def test_without_servers_no_worker_keeps_pushes_for_them() -> None:
    assert Config.from_values({"local_updates": 1}).keeps_pushes
    assert not Config.from_values({"local_updates": 1, "snapshot_period": 0}).keeps_pushes
    assert not Config.from_values(ALL_REDUCE).keeps_pushes


@pytest.mark.parametrize(
    ("option", "value", "what_to_do"),
    [
        ("local_updates", 64, "the gradient of each update is added up: say --local_updates=1"),
        ("aggregation", "async", "what workers add up is the mean of a round: leave it out"),
        ("aggregation", "median", "what workers add up is the mean of a round: leave it out"),
        ("backup_workers", 1, "a sum is of all workers that are there: leave it out"),
        ("max_staleness", 0, "no gradient is older than the others: leave it out"),
        ("staleness_decay", 0.5, "no gradient is older than the others: leave it out"),
        ("staleness_cutoff", 4, "no gradient is older than the others: leave it out"),
        ("pull_wire_dtype", "int8", "float32 vectors are added up as they are: leave it out"),
        ("push_wire_dtype", "bfloat16", "float32 vectors are added up as they are: leave it out"),
        ("push_top_k", 0.1, "float32 vectors are added up as they are: leave it out"),
        (
            "ps_timeout",
            9.0,
            "there are no parameter servers: leave it out (--worker_timeout is for workers)",
        ),
    ],
)
def test_what_does_not_go_with_it_is_refused(option: str, value: object, what_to_do: str) -> None:
    with pytest.raises(UsageError) as refused:
        Config.from_values({**ALL_REDUCE, option: value})
    assert str(refused.value) == (
        f"--{option}={value}: does not go with --strategy=all_reduce; {what_to_do}"
    )
    Config.from_values({"local_updates": 1, option: value})


@pytest.mark.parametrize("option", ["outer_learning_rate", "outer_momentum"])
def test_there_is_no_outer_step(option: str) -> None:
    with pytest.raises(UsageError, match=f"^--{option}=0.5: has no effect without --local_upd"):
        Config.from_values({**ALL_REDUCE, option: 0.5})
