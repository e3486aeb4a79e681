"""What goes with a replay on tasks of its own, and how such a run is shared out."""

from typing import Any

import pytest
from support.option_values import A3C

from ps_dqn.config import Config, checks, scaling
from ps_dqn.config.topology import Rungs, Topology
from ps_dqn.errors import UsageError
from ps_dqn.replay_server import shares

APEX = {"topology": "apex", "replay": "prioritized"}


def config(**options: Any) -> Config:
    return Config.from_values(APEX | options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"replay": "uniform"}, r"--replay=uniform: .* say --replay=prioritized"),
        ({"recurrent_size": 8}, "--recurrent_size=8: .* leave it out"),
        ({"value_distribution": "iqn"}, "--value_distribution=iqn: .* leave it out"),
        ({"munchausen": True, "double_dqn": False}, "--munchausen=true: .* leave it out"),
        ({"value_rescaling": True}, "--value_rescaling=true: .* leave it out"),
        ({"normalize_returns": "on"}, "--normalize_returns=on: .* leave it out"),
        ({"branching": True}, "--branching=true: .* leave it out"),
        ({"demonstrations": "shown.npz"}, "--demonstrations=shown.npz: .* leave it out"),
        ({"n_step_start": 9}, "--n_step_start=9: .* leave it out"),
        ({"gamma_start": 0.5}, "--gamma_start=0.5: .* leave it out"),
        ({"overlap": "on"}, "--overlap=on: .* leave it out"),
        ({"backup_workers": 1}, "--backup_workers=1: .* leave it out"),
        ({"aggregation": "median"}, "--aggregation=median: .* leave it out"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}$"):
        config(**options)
    Config.from_values(options)  # by itself it is not


def test_actors_without_a_shared_replay_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^--num_actors=3: has no effect without --topology=apex"):
        Config.from_values({"num_actors": 3})


def test_workers_are_learners_and_actors() -> None:
    checks.check_workers(config(num_actors=4, num_learners=2), 6, is_remote=True)
    with pytest.raises(UsageError, match=r"^--num_workers=5: .* --num_learners=2 .* 6 in all"):
        checks.check_workers(config(num_actors=4, num_learners=2), 5, is_remote=True)


def test_the_ladder_is_over_the_environments_of_all_actors() -> None:
    topology = Topology("apex", num_actors=3, num_learners=2)
    rungs = [topology.rungs(worker, 4) for worker in (2, 3, 4)]
    assert rungs == [Rungs(0, 4, 12), Rungs(4, 4, 12), Rungs(8, 4, 12)]
    # What learners learn of is what all actors do.
    assert [topology.rungs(worker, 4) for worker in (0, 1)] == [Rungs(0, 12, 12)] * 2
    assert Topology().rungs(3, 4) == Rungs(0, 4, 4)


def test_environments_are_shared_out_among_actors_and_the_replay_is_not() -> None:
    whole = config(num_envs=24, num_actors=4, num_learners=2, replay_capacity=9_000)
    share = whole.shared_by(6)
    assert share.environment.envs_per_worker == 6
    assert share.replay.replay_capacity == 9_000
    assert share.replay.min_replay_size == whole.replay.min_replay_size
    assert share.parameter_server.aggregation == "async"
    # All actors together make what a learner's push is for.
    options = whole.parameter_server
    steps = 4 * scaling.env_steps_per_push(share, 2)
    assert steps == options.update_period * options.local_updates


def test_replay_servers_have_their_shares() -> None:
    share = config(num_envs=20, num_actors=4, replay_capacity=9_000, batch_size=48).shared_by(5)
    parts = [shares.of(share, server, 3) for server in range(3)]
    assert [part.environment.envs_per_worker for part in parts] == [8, 8, 4]  # of 5 each: 2, 2, 1
    assert {part.replay.replay_capacity for part in parts} == {3_000}
    assert {part.learning.batch_size for part in parts} == {16}
    with pytest.raises(UsageError, match=r"^--num_replay_servers=6: .*an actor's environments"):
        shares.check(share, 6)
    with pytest.raises(UsageError, match=r"^--batch_size=48: .*a multiple of 5"):
        shares.check(share, 5)


@pytest.mark.parametrize(
    ("options", "forgets"),
    [
        ({}, True),
        ({"topology": "seed"}, True),
        ({"replay_files": True}, False),
        (APEX, False),
        (A3C, False),
    ],
)
def test_who_forgets_experience_when_it_ends(options: dict[str, Any], forgets: bool) -> None:
    assert Config.from_values(options).forgets_experience is forgets
