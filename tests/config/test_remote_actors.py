"""What goes with actors that have no network, and how such a run is shared out."""

from typing import Any

import pytest
from support.command_lines import parsed

from ps_dqn.cluster.spec import ClusterSpecError
from ps_dqn.config import Config, checks
from ps_dqn.config.topology import Rungs, Topology
from ps_dqn.errors import UsageError
from ps_dqn.flags import tasks


def config(**options: Any) -> Config:
    return Config.from_values({"topology": "seed"} | options)


ROLLOUT = {"replay": "rollout", "target_update_period": 0, "double_dqn": False, "n_step": 1}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (ROLLOUT, "--replay=rollout: does not go with --topology=seed; .*"),
        (
            {"offline": True, "demonstrations": "shown.npz"},
            "--offline=true: does not go with --topology=seed; .*",
        ),
        ({"num_learners": 3}, "--num_learners=3: .* --num_actors=2: say fewer of them"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}$"):
        config(**options)


@pytest.mark.parametrize("topology", ["local", "apex"])
def test_a_timeout_without_inference_is_refused(topology: str) -> None:
    says = r"^--inference_timeout=5.0: has no effect without --topology=seed"
    with pytest.raises(UsageError, match=says):
        Config.from_values(
            {"inference_timeout": 5.0, "topology": topology, "replay": "prioritized"}
        )


def test_workers_are_the_learners() -> None:
    whole = config(num_actors=4, num_learners=2)
    checks.check_workers(whole, 2, is_remote=False)
    says = r"^--num_workers=6: with --topology=seed the workers are --num_learners=2: make both"
    with pytest.raises(UsageError, match=says):
        checks.check_workers(whole, 6, is_remote=False)


def test_each_actor_has_an_environment_at_least() -> None:
    with pytest.raises(UsageError, match=r"^--num_actors=5: up to 3 of them share the 2 envir"):
        checks.check_workers(config(num_actors=5, num_learners=2, num_envs=4), 2, is_remote=False)
    checks.check_workers(config(num_actors=5, num_learners=2, num_envs=6), 2, is_remote=False)


def test_learners_share_out_what_workers_do() -> None:
    whole = config(num_actors=3, num_learners=2, num_envs=24, replay_capacity=9_000)
    share = whole.shared_by(2)
    assert share.environment.envs_per_worker == 12
    assert share.replay.replay_capacity == 4_500
    assert share.parameter_server.aggregation == "sync"
    # Each learns from a replay of its own, so each has all of the ladder.
    assert share.topology.rungs(1, 12) == Rungs(0, 12, 12)


def test_actors_are_dealt_to_learners() -> None:
    topology = Topology("seed", num_actors=5, num_learners=2)
    addresses = [f"host-{i}:1" for i in range(5)]
    assert topology.actors_of(0, addresses) == ["host-0:1", "host-2:1", "host-4:1"]
    assert topology.actors_of(1, addresses) == ["host-1:1", "host-3:1"]
    with pytest.raises(UsageError, match=r"^--num_actors=5: worker 1 knows of 4 actor tasks"):
        topology.actors_of(1, addresses[:4])


REMOTE = ("--chief_host=a:1", "--ps_hosts=b:1", "--worker_hosts=c:1")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--actor_hosts=d:1",), "--actor_hosts=d:1: has no effect without --topology=seed"),
        (("--topology=seed", "--actor_hosts=d:1"), "--actor_hosts=d:1: are 1, and --num_actors=2"),
        (("--topology=seed", "--num_workers=3"), "--num_workers=3: with --topology=seed"),
        (
            ("--topology=seed",),
            "--num_actors=2: the cluster has 0 actor tasks; say as many --actor",
        ),
    ],
)
def test_addresses_that_make_no_sense_are_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises((ClusterSpecError, UsageError), match=f"^{says}"):
        tasks.read_placement(parsed(*REMOTE, *words))


def test_a_cluster_has_its_actors() -> None:
    local = tasks.read_placement(parsed("--topology=seed", "--num_actors=3")).spec
    assert (len(local.workers), len(local.actors), len(local.all_tasks())) == (1, 3, 5)
    remote = tasks.read_placement(parsed(*REMOTE, "--topology=seed", "--actor_hosts=d:1,e:1")).spec
    assert remote.actors == ("d:1", "e:1")
    # Of TensorFlow's cluster they are no part.
    assert "d:1" not in str(remote.as_dict())
    assert [str(task) for task in remote.tasks()] == ["parameter server 0", "worker 0"]
