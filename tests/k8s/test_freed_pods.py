"""The rendered manifests free their nodes: a run ends here, and its StatefulSets have no pods left.

The API server is played; who may ask it what is read from the manifests.
"""

import shutil

import pytest
from support.manifests import experiment_patch, render_overlay
from support.pods import cluster as pods_cluster
from support.pods import network
from support.pods.api import PORT
from support.pods.cluster import Cluster

pytestmark = pytest.mark.slow

SECONDS = 300.0
EXPERIMENT = """\
--env_id=CartPole-v1
--num_envs_per_worker=8
--replay_capacity=20000
--min_replay_size=500
--target_return=inf
--total_env_steps=4000
--eval_period=4000
--eval_episodes=2
--jit_compile=none
"""
OVERLAY = """
namespace: ps-dqn
namePrefix: mine-
resources: [{k8s}/overlays/local]
components: [{k8s}/components/free-nodes]
transformers: [{k8s}/counts]
patches:
  - target: {{kind: StatefulSet, name: parameter-server}}
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/lifecycle/preStop/sleep/seconds
        value: 2
""" + experiment_patch(EXPERIMENT)
REMOVED = {"Deployment", "Namespace"}


def test_a_run_that_is_over_has_no_pods(tmp_path_factory: pytest.TempPathFactory) -> None:
    reason = pods_cluster.unavailable()
    if reason or shutil.which("openssl") is None:
        pytest.skip(reason or "openssl is not installed")
    objects = [each for each in render_overlay(OVERLAY) if each["kind"] not in REMOVED]
    sets = ["mine-worker", "mine-parameter-server"]
    with Cluster(objects, tmp_path_factory.mktemp("cluster")) as cluster:
        assert cluster.api
        job = cluster.jobs["mine-coordinator"]

        def is_begun() -> bool:
            pods = [cluster.pod("mine-coordinator"), cluster.pod("mine-worker-0")]
            return all(pod is not None and pod.pid for pod in pods)

        cluster.until(is_begun, SECONDS, "pods")
        coordinator, worker = cluster.pod("mine-coordinator"), cluster.pod("mine-worker-0")
        assert coordinator
        assert worker
        # Nobody but the coordinator reaches the API.
        for pod, reaches in ((coordinator, True), (worker, False)):
            reached = network.connects(pod.interface, cluster.api.interface, PORT, 0.5)
            assert reached == reaches
        cluster.until(lambda: job.state != "Active", SECONDS, "the end of the run")
        assert job.state == "Complete", cluster.describe()
        assert cluster.api.requests == [(name, 200) for name in sets]
        lines = coordinator.log.read_text().splitlines()
        assert lines[-2:] == [
            f"{name} is scaled to zero: its pods free their nodes" for name in sets
        ]

        def are_gone() -> bool:
            return not [
                pod for name in sets for pod in cluster.stateful_sets[name].pods() if not pod.gone
            ]

        cluster.until(are_gone, SECONDS, "the pods to go")
    assert pods_cluster.left_here() == []
