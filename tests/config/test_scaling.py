"""How a run follows the number of its workers; the numbers are computed by hand."""

from typing import Any

import pytest

from ps_dqn.config import Config, scaling
from ps_dqn.config.run import ParameterServer
from ps_dqn.errors import UsageError

ROLLOUT = {"replay": "rollout", "target_update_period": 0, "double_dqn": False, "n_step": 1}
GRADIENTS = {"local_updates": 1}
SYNC = {"aggregation": "sync"}


def options(**values: Any) -> ParameterServer:
    return Config.from_values(values).parameter_server


def shares(config: Config) -> tuple[int, int | None, int]:
    """Environments, transitions and least rows of a worker."""
    replay = config.replay
    return config.environment.envs_per_worker, replay.replay_capacity, replay.min_replay_size


# What is left to each worker.


@pytest.mark.parametrize(
    ("num_workers", "wanted"),
    [
        (1, (64, None, 1000)),
        (2, (32, 25_000, 500)),
        (3, (22, 16_667, 334)),  # 21.3, 16,666.7 and 333.3
        (8, (8, 6_250, 125)),
        (100, (1, 500, 10)),
    ],
)
def test_workers_share_environments_and_replay(
    num_workers: int, wanted: tuple[int, int | None, int]
) -> None:
    assert shares(Config.from_values({}).shared_by(num_workers)) == wanted


def test_a_capacity_that_is_said_is_of_the_run() -> None:
    values = {"num_envs": 6, "replay_capacity": 901, "min_replay_size": 31}
    assert shares(Config.from_values(values).shared_by(4)) == (2, 226, 8)


def test_environments_of_each_worker_are_not_shared_out() -> None:
    config = Config.from_values({"num_envs_per_worker": 10}).shared_by(4)
    assert shares(config) == (10, 12_500, 250)
    assert shares(Config.from_values({"num_envs_per_worker": 10})) == (10, None, 1000)


def test_a_memory_is_of_each_worker() -> None:
    config = Config.from_values({"replay_memory": "1GiB"}).shared_by(4)
    assert shares(config) == (16, None, 250)
    assert config.replay.replay_memory == "1GiB"
    both = Config.from_values({"replay_memory": "1GiB", "replay_capacity": 8000}).shared_by(4)
    assert shares(both) == (16, 2000, 250)


def test_nothing_else_is_shared_out() -> None:
    config = Config.from_values({"total_env_steps": 77_777, "seed": 3})
    back = {
        "num_envs": 64,
        "replay_capacity": None,
        "min_replay_size": 1000,
        "aggregation": "auto",
    }
    values = {
        name: value
        for group in (vars(each) for each in vars(config.shared_by(8)).values())
        for name, value in group.items()
    }
    assert Config.from_values({**values, **back}) == config


def test_one_worker_has_all_of_it() -> None:
    for values in ({}, {"num_envs": 5}, {"num_envs_per_worker": 5}):
        config = Config.from_values(values)
        assert config.shared_by(1) == config


def test_rollouts_are_not_shared_out() -> None:
    config = Config.from_values({**ROLLOUT, "aggregation": "async"})
    assert config.shared_by(8) == config
    assert config.environment.envs_per_worker == 64


def test_workers_are_sent_their_share() -> None:
    share = Config.from_values({}).shared_by(8)
    assert Config.from_json(share.to_json()) == share


@pytest.mark.parametrize(
    ("values", "num_workers", "said"),
    [
        (
            # 8 environments of 5 + 2 rows need 56, one alone 7; a share is 4.
            {"num_envs": 8, "replay_capacity": 60, "min_replay_size": 10},
            16,
            "--replay_capacity=4: 1 environments with --n_step=5 need 7 or more",
        ),
        (
            # 2 environments have 9 rows each of a share of 18, 4 of which can be drawn; 21 / 2 are
            # wanted.
            {"num_envs": 3, "replay_capacity": 36, "min_replay_size": 21},
            2,
            "--min_replay_size=11: 2 environments with --replay_capacity=18 and --n_step=5 offer "
            "8 at most",
        ),
    ],
    ids=["too little room", "too little to draw"],
)
def test_a_share_that_is_too_small_is_refused_with_one_line(
    values: dict[str, Any], num_workers: int, said: str
) -> None:
    config = Config.from_values(values)
    with pytest.raises(UsageError) as caught:
        config.shared_by(num_workers)
    assert str(caught.value) == f"each of {num_workers} workers has its share: {said}"


# What a push does.


@pytest.mark.parametrize(
    ("values", "workers", "wanted"),
    [
        ({}, 1, 0.5),  # 0.5 - (1 - 1)
        ({}, 2, 0.0),  # 0.5 - (1 - 1/2)
        ({}, 3, 0.0),  # 0.5 - (1 - 1/3) is below 0
        ({}, 8, 0.0),
        (SYNC, 1, 0.5),
        (SYNC, 8, 0.5),
        ({"aggregation": "median"}, 8, 0.5),
        ({"outer_momentum": 0.9}, 8, 0.9),
        ({"outer_momentum": 0.0}, 1, 0.0),
        ({"outer_momentum": 0.25, **SYNC}, 8, 0.25),
    ],
    ids=str,
)
def test_momentum_is_what_waiting_for_nobody_does_not_bring(
    values: dict[str, Any], workers: int, wanted: float
) -> None:
    assert scaling.momentum(options(**values), workers) == wanted


@pytest.mark.parametrize(
    ("values", "workers", "wanted"),
    [
        ({}, 1, 0.5),
        ({}, 2, 1.0),
        ({}, 8, 1.0),
        (SYNC, 1, 0.5),
        (SYNC, 8, 1.0),
        (SYNC, 27, 1.5),
        ({"aggregation": "median"}, 8, 1.0),
        ({"outer_momentum": 0.75}, 8, 0.25),
        ({"outer_momentum": 0.75, **SYNC}, 8, 0.5),
        ({"outer_optimizer": "sgd"}, 1, 1.0),
        ({"outer_optimizer": "sgd", **SYNC}, 8, 2.0),
        ({"outer_optimizer": "adam", **SYNC}, 16, 0.01),
        ({"outer_optimizer": "sgd"}, 8, 1.0),
        ({"outer_optimizer": "adam"}, 1, 0.01),
        ({"outer_optimizer": "adam"}, 8, 0.01),
        ({"outer_learning_rate": 0.125}, 8, 0.125),
        ({"outer_learning_rate": 0.0}, 1, 0.0),
        ({"outer_learning_rate": 0.3, "outer_optimizer": "adam"}, 8, 0.3),
    ],
    ids=str,
)
def test_the_step_size_makes_up_for_the_momentum_and_for_noise_that_averages_out(
    values: dict[str, Any], workers: int, wanted: float
) -> None:
    assert scaling.step_size(options(**values), workers) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("values", "workers", "wanted"),
    [
        ({}, 1, 1.0),
        ({}, 4, 0.25),
        ({}, 8, 0.125),
        ({"outer_momentum": 0.9}, 4, 0.25),
        ({"outer_optimizer": "adam"}, 4, 0.25),
        ({"outer_learning_rate": 0.5}, 4, 1.0),
        ({"outer_learning_rate": 0.0}, 4, 1.0),
        (GRADIENTS, 4, 1.0),
        (SYNC, 4, 1.0),
        ({"aggregation": "trimmed_mean"}, 4, 1.0),
        ({**GRADIENTS, **SYNC}, 4, 1.0),
    ],
    ids=str,
)
def test_a_change_counts_as_one_of_the_workers(
    values: dict[str, Any], workers: int, wanted: float
) -> None:
    assert scaling.share(options(**values), workers) == wanted


@pytest.mark.parametrize(
    ("values", "workers", "updates", "env_steps"),
    [
        # 64 updates and 8 environment steps for each, where nothing is said.
        ({}, 1, 64, 512),
        ({}, 8, 8, 64),
        ({}, 5, 12.8, 102.4),
        ({"update_period": 0.5}, 8, 8, 4),
        ({"local_updates": 3, "update_period": 2}, 4, 0.75, 1.5),
        # A step of the optimizer's own each, whoever pushed.
        (GRADIENTS, 1, 1, 8),
        (GRADIENTS, 8, 1, 8),
        # All workers of a round make its updates together.
        (SYNC, 4, 16, 128),
        ({**GRADIENTS, **SYNC}, 4, 0.25, 2),
        # What counts is side by side, but each learns from its own steps.
        (ROLLOUT, 8, 8, 512),
        ({**ROLLOUT, **GRADIENTS, "num_envs": 8}, 8, 1, 8),
    ],
    ids=str,
)
def test_updates_that_are_made_side_by_side_are_one(
    values: dict[str, Any], workers: int, updates: float, env_steps: float
) -> None:
    config = Config.from_values(values)
    assert scaling.sequential_updates(config.parameter_server, workers) == updates
    assert scaling.env_steps_per_push(config, workers) == pytest.approx(env_steps, rel=1e-12)


@pytest.mark.parametrize(
    ("values", "num_workers", "wanted"),
    [
        ({}, 1, 8.0),  # 512 steps of 64 environments
        ({}, 8, 8.0),  # 64 of 8
        ({}, 3, 512 / 3 / 22),
        ({"num_envs_per_worker": 64}, 8, 1.0),
        ({"num_envs_per_worker": 64}, 16, 0.5),
        (ROLLOUT, 8, 8.0),
    ],
    ids=str,
)
def test_steps_of_a_workers_environments(
    values: dict[str, Any], num_workers: int, wanted: float
) -> None:
    share = Config.from_values(values).shared_by(num_workers)
    assert share.vector_steps_per_push(num_workers) == pytest.approx(wanted)


def test_a_worker_takes_over_what_lost_ones_collected() -> None:
    share = Config.from_values({}).shared_by(8)
    # 8 environments each; two workers that are left make 256 of the 512 steps each.
    assert share.vector_steps_per_push(2) == 32.0


def test_a_rollout_is_as_long_whoever_else_pushes() -> None:
    values = {**ROLLOUT, "num_envs": 16, "local_updates": 4, "update_period": 16}
    assert Config.from_values(values).shared_by(3).vector_steps_per_rollout == 4  # 64 of 16


def test_the_newest_experience_that_is_drawn_from_is_shared_too() -> None:
    config = Config.from_values({"replay": "recent", "recency_min_size": 2_501})
    assert config.shared_by(4).replay.recency_min_size == 626
    assert Config().shared_by(4).replay.recency_min_size == Config().replay.recency_min_size


def test_environments_are_of_the_run_or_of_each_worker() -> None:
    with pytest.raises(UsageError) as caught:
        Config.from_values({"num_envs": 8, "num_envs_per_worker": 4})
    wanted = "--num_envs=8: has no effect beside --num_envs_per_worker=4; leave one of them out"
    assert str(caught.value) == wanted


@pytest.mark.parametrize(
    ("values", "num_workers", "wanted"),
    [
        ({}, 2, "sync"),
        ({}, 16, "sync"),
        ({}, 1, "auto"),  # a worker alone has nobody to wait for
        ({"local_updates": 1}, 4, "async"),
        ({"max_staleness": 0}, 4, "async"),
        ({"staleness_decay": 0.1}, 4, "async"),
        ({"staleness_cutoff": 8}, 4, "async"),
        ({"backup_workers": 1}, 4, "sync"),
        ({"backup_workers": 1, "local_updates": 1}, 4, "sync"),
        ({**ROLLOUT, "backup_workers": 1}, 4, "sync"),
        ({"aggregation": "async"}, 4, "async"),
        ({"aggregation": "median"}, 4, "median"),
        (ROLLOUT, 4, "async"),
    ],
    ids=str,
)
def test_several_workers_push_in_rounds(
    values: dict[str, Any], num_workers: int, wanted: str
) -> None:
    share = Config.from_values(values).shared_by(num_workers)
    assert share.parameter_server.aggregation == wanted
