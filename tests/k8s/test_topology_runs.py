"""Manifests of what is not the default run CartPole here to its end: who did what, called whom."""

import pathlib
from collections.abc import Iterator

import pytest
from support.pods import cluster as pods_cluster
from support.pods import whole_run
from support.pods.cluster import Cluster
from support.pods.seen import metric

pytestmark = pytest.mark.slow

STEPS = 30_000
STEPS_OF_ALL_REDUCE = 10_000  # an exchange for each update
RUN = ("--update_period=8", "--local_updates=8", "--batch_size=16", f"--total_env_steps={STEPS}")
CALLS = {
    ("coordinator", "parameter-server"),
    ("coordinator", "worker"),
    ("worker", "parameter-server"),
}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    reason = whole_run.unavailable()
    if reason:
        pytest.skip(reason)
    yield tmp_path_factory.mktemp("cluster")
    assert pods_cluster.left_here() == []


def test_ape_x(folder: pathlib.Path) -> None:
    servers = [f"mine-replay-server-{i}" for i in range(2)]

    def works(cluster: Cluster) -> bool:
        drawn = [metric(cluster, name, "ps_dqn_replay_samples_total") for name in servers]
        return all(drawn) and metric(cluster, "mine-coordinator", "ps_dqn_workers_reporting") == 3

    counts = ("--workers=1", "--num_actors=2", "--replay_servers=2", "--ps=1")
    seen = whole_run.run(folder, works, "--preset=cartpole,ape_x", *counts, *RUN)

    # Actors are workers, and numbered so.
    assert {"mine-worker-0", "mine-actor-1", "mine-actor-2"} < {*seen.has_tensorflow}
    summary = seen.summary
    assert summary["env_steps"] >= STEPS
    assert summary["roles"] == {"0": "learner", "1": "actor", "2": "actor"}
    learner, *actors = (summary["workers"][str(worker)] for worker in range(3))
    assert (learner["env_steps_made"], [row["updates_made"] for row in actors]) == (0, [0, 0])
    assert learner["updates_made"] > 0
    assert all(row["env_steps_made"] > 0 for row in actors)
    for server in summary["replay_servers"]:
        assert server["adds"] > 0
        assert server["samples"] > 0
    # Replay servers and parameter servers fetch what they are given from whom it is of.
    handed = {("actor", "replay-server"), ("worker", "replay-server")}
    needed = CALLS | handed | {("actor", "parameter-server"), ("coordinator", "actor")}
    asked = {("coordinator", "replay-server")}
    fetched = {(server, who) for who, server in needed if who in ("actor", "worker")}
    assert needed <= seen.used <= needed | asked | fetched
    assert seen.refused == {}
    roles = ("worker", "parameter-server", "replay-server", "actor")
    assert seen.freed == [f"mine-{role}" for role in roles]


def test_seed(folder: pathlib.Path) -> None:
    actors = [f"mine-actor-{i}" for i in range(2)]

    def works(cluster: Cluster) -> bool:
        made = [metric(cluster, name, "ps_dqn_actor_env_steps_total") for name in actors]
        return all(made) and metric(cluster, "mine-worker-0", "ps_dqn_worker_updates_total") > 0

    counts = ("--workers=1", "--num_actors=2", "--ps=1")
    seen = whole_run.run(folder, works, "--preset=cartpole,seed", *counts, *RUN)

    assert {each for each, has_it in seen.has_tensorflow.items() if not has_it} == {*actors}
    [learner] = seen.summary["workers"].values()
    assert learner["updates_made"] > 0
    assert learner["inference_batch_size"] > 1
    assert seen.summary["env_steps"] >= STEPS
    needed = CALLS | {("worker", "actor")}
    possible = {("parameter-server", "worker"), ("coordinator", "actor")}
    assert needed <= seen.used <= needed | possible, "actors connect to nobody"
    assert seen.refused == {}
    assert seen.freed == ["mine-worker", "mine-parameter-server", "mine-actor"]


def test_all_reduce(folder: pathlib.Path) -> None:
    workers = [f"mine-worker-{i}" for i in range(2)]

    def works(cluster: Cluster) -> bool:
        return all(metric(cluster, name, "ps_dqn_worker_updates_total") for name in workers)

    flags = (
        "--preset=cartpole",
        "--workers=2",
        "--strategy=all_reduce",
        *RUN,
        "--local_updates=1",
        f"--total_env_steps={STEPS_OF_ALL_REDUCE}",
    )
    seen = whole_run.run(folder, works, *flags)

    assert sorted(seen.has_tensorflow) == ["mine-coordinator-0", *workers]
    assert seen.summary["env_steps"] >= STEPS_OF_ALL_REDUCE
    made = [row["updates_made"] for row in seen.summary["workers"].values()]
    assert made[0] == made[1] > 0, "each update is one of both"
    assert seen.used == {("coordinator", "worker"), ("worker", "worker")}
    assert seen.refused == {}
    assert seen.freed == ["mine-worker"]


def test_fewer_digits_fewer_weights_and_a_profile(folder: pathlib.Path) -> None:
    def works(cluster: Cluster) -> bool:
        return metric(cluster, "mine-worker-0", "ps_dqn_worker_updates_total") > 0

    options = ("--precision=bfloat16", "--pruning=rigl", "--sparsity=0.8", "--profile=200:400")
    flags = ("--preset=cartpole", "--workers=1", "--ps=1", *RUN, *options)
    seen = whole_run.run(folder, works, *flags, f"--total_env_steps={STEPS_OF_ALL_REDUCE}")

    assert seen.summary["sparsity"]["all"] == pytest.approx(0.8, abs=0.01)
    recorded = (folder / "claims" / "mine-runs" / "mine").rglob("*.xplane.pb")
    assert {each.name.split(".")[0] for each in recorded} == {"coordinator", "ps-0", "worker-0"}
    assert seen.refused == {}
