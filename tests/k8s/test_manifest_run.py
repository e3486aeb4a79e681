"""The rendered manifests run CartPole here, through the loss of a pod of each role.

Time passes for the pods only in `until`, so all of it is one story, told once.
"""

import csv
import dataclasses
import json
import pathlib

import pytest
from support.manifests import experiment_patch, render_overlay
from support.pods import cluster as pods_cluster
from support.pods import network
from support.pods.cluster import Cluster
from support.pods.pod import Pod
from support.pods.seen import HEALTH, calls, metric, role

from ps_dqn.run.signals import START_AGAIN

pytestmark = pytest.mark.slow

GRPC = 2222
START_SECONDS, AGAIN_SECONDS, END_SECONDS = 240.0, 180.0, 240.0
REFUSED_SECONDS = 0.5
WORKERS = ("worker-0", "worker-1", "worker-2")
TRIED = (
    ("worker-0", "worker-1"),
    ("worker-0", "coordinator"),
    ("parameter-server-0", "parameter-server-1"),
    ("parameter-server-0", "coordinator"),
    ("parameter-server-0", "worker-0"),
    ("coordinator", "worker-1"),
    ("evaluator", "worker-1"),
)
MORE_ENV_STEPS = 30_000  # for the last coordinator
MEMORY_LIMIT = 1_100 * 2**20
EXPERIMENT = """\
--env_id=CartPole-v1
--num_envs_per_worker=8
--replay_memory=50%
--target_return=inf
--checkpoint_period=2
--metrics_period=1000
--eval_period=20000
--jit_compile=none
--learning_rate_decay_steps=100000
"""
ENDLESS = "--total_env_steps=1000000000\n"
# A pod is deleted with less of a delay than people need; a laptop's TensorBoard is not asked for.
OVERLAY = """
namespace: ps-dqn
resources: [{k8s}/overlays/local]
replicas:
  - {{name: worker, count: 3}}
  - {{name: parameter-server, count: 2}}
transformers: [{k8s}/counts]
patches:
  - target: {{kind: StatefulSet, name: worker}}
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/resources/limits/memory
        value: 1100Mi
  - target: {{kind: StatefulSet, name: parameter-server}}
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/lifecycle/preStop/sleep/seconds
        value: 2
""" + experiment_patch(EXPERIMENT + ENDLESS)
REMOVED = {("Deployment", "tensorboard"), ("Service", "tensorboard")}


@dataclasses.dataclass
class Story:
    """What was seen while the manifests ran."""

    folder: pathlib.Path
    replay_bytes: float = 0.0
    without_worker: tuple[int, int] = (0, 0)  # env steps when it was gone, and later
    coordinators: list[int] = dataclasses.field(default_factory=list)  # processes, at each step
    addresses: list[str] = dataclasses.field(default_factory=list)  # of worker-1, old and new
    used: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    refused: dict[str, int] = dataclasses.field(default_factory=dict)
    reached: dict[str, bool] = dataclasses.field(default_factory=dict)
    newest: str = ""  # checkpoint before the coordinator's restart
    resumed: list[str] = dataclasses.field(default_factory=list)  # the line about it
    saved_steps: tuple[int, int] = (0, 0)  # env steps before SIGTERM, and saved
    failures: list[int] = dataclasses.field(default_factory=list)
    jobs: dict[str, str] = dataclasses.field(default_factory=dict)
    left: list[str] = dataclasses.field(default_factory=list)

    @property
    def run(self) -> pathlib.Path:
        return self.folder / "claims" / "runs" / "cartpole"

    def env_steps(self) -> int:
        """Of the newest whole row of metrics."""
        path = self.run / "metrics.csv"
        lines = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
        rows = list(csv.DictReader(lines))
        return int(rows[-1]["env_steps"]) if rows else 0

    def newest_checkpoint(self) -> str:
        return max(path.name for path in (self.run / "checkpoints").glob("updates-*.npz"))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    reason = pods_cluster.unavailable()
    if reason:
        pytest.skip(reason)
    objects = [
        each
        for each in render_overlay(OVERLAY)
        if (each["kind"], each["metadata"]["name"]) not in REMOVED
    ]
    seen = Story(tmp_path_factory.mktemp("cluster"))
    with Cluster(objects, seen.folder) as cluster:
        _begin(cluster, seen)
        _lose_worker(cluster, seen)
        _try_connections(cluster, seen)
        _lose_parameter_server(cluster, seen)
        _evict_coordinator(cluster, seen)
    seen.left = pods_cluster.left_here()
    return seen


def _begin(cluster: Cluster, seen: Story) -> None:
    def all_ready() -> bool:
        pods = cluster.pods()
        return len(pods) == 7 and all(pod.is_ready for pod in pods)

    cluster.until(all_ready, START_SECONDS, "every pod to be ready")
    for worker in WORKERS:
        cluster.until(lambda name=worker: _works(cluster, name), AGAIN_SECONDS, f"{worker} to work")
    cluster.until(seen.env_steps, AGAIN_SECONDS, "the first row of metrics")
    seen.replay_bytes = metric(cluster, WORKERS[0], "ps_dqn_worker_replay_bytes")
    seen.coordinators.append(_pod(cluster, "coordinator").pid)


def _lose_worker(cluster: Cluster, seen: Story) -> None:
    lost = _pod(cluster, "worker-1")
    lost.delete()
    with cluster.cordoned():  # however long the others take, no other one is there before
        cluster.until(lambda: lost.gone, AGAIN_SECONDS, "the worker to be gone")
        before = seen.env_steps()
        cluster.until(lambda: seen.env_steps() > before, AGAIN_SECONDS, "the others to go on")
        seen.without_worker = (before, seen.env_steps())
    cluster.until(lambda: _is_ready(cluster, "worker-1"), AGAIN_SECONDS, "another worker")
    seen.addresses = [lost.address, _pod(cluster, "worker-1").address]
    cluster.until(lambda: _works(cluster, "worker-1"), AGAIN_SECONDS, "that worker to work")
    seen.coordinators.append(_pod(cluster, "coordinator").pid)


def _try_connections(cluster: Cluster, seen: Story) -> None:
    pods = {pod.name: pod for pod in cluster.pods()}
    seen.used, seen.refused = calls(cluster)
    outsider = cluster.outsider("outsider", {"app.kubernetes.io/name": "somebody"}).interface
    for source, target in TRIED:
        seen.reached[f"{source} > {target}"] = network.connects(
            _pod(cluster, source).interface, _pod(cluster, target).interface, GRPC, REFUSED_SECONDS
        )
    for pod in pods.values():
        for port in (GRPC, HEALTH):
            seen.reached[f"outsider > {role(pod)}:{port}"] = network.connects(
                outsider, pod.interface, port, REFUSED_SECONDS
            )


def _lose_parameter_server(cluster: Cluster, seen: Story) -> None:
    lost = _pod(cluster, "parameter-server-1")
    lost.delete()
    seen.resumed.append(cluster.until(lambda: _resumed(cluster), AGAIN_SECONDS, "a resumed run"))
    cluster.until(
        lambda: lost.gone and _is_ready(cluster, lost.name), AGAIN_SECONDS, "another server"
    )
    assert _pod(cluster, lost.name).address != lost.address

    def all_work() -> bool:
        return metric(cluster, lost.name, "ps_dqn_ps_pushes_total") > 0 and metric(
            cluster, "coordinator", "ps_dqn_workers_reporting"
        ) == len(WORKERS)

    cluster.until(all_work, AGAIN_SECONDS, "every worker to work with the new server")
    seen.coordinators.append(_pod(cluster, "coordinator").pid)


def _evict_coordinator(cluster: Cluster, seen: Story) -> None:
    job, evaluator = cluster.jobs["coordinator"], cluster.jobs["evaluator"]
    steps = seen.env_steps()
    _pod(cluster, "coordinator").evict()
    cluster.until(lambda: job.failures, AGAIN_SECONDS, "the coordinator to end")
    seen.newest = seen.newest_checkpoint()
    seen.saved_steps = (steps, seen.env_steps())
    end = f"--total_env_steps={seen.env_steps() + MORE_ENV_STEPS}\n"
    cluster.configure("experiment", "experiment.flags", EXPERIMENT + end)
    seen.resumed.append(cluster.until(lambda: _resumed(cluster), AGAIN_SECONDS, "another one"))
    cluster.until(lambda: job.state != "Active", END_SECONDS, "the run to end")
    cluster.until(lambda: evaluator.state != "Active", END_SECONDS, "the evaluator to end")
    seen.failures = job.failures
    seen.jobs = {"coordinator": job.state, "evaluator": evaluator.state}


def _resumed(cluster: Cluster) -> str:
    """Where the present coordinator says it goes on."""
    pod = cluster.pod("coordinator")
    lines = pod.log.read_text().splitlines() if pod and pod.log.exists() else []
    return next((line for line in lines if line.startswith(("resumed at", "goes on at"))), "")


def _works(cluster: Cluster, worker: str) -> bool:
    return metric(cluster, worker, "ps_dqn_worker_updates_total") > 0


def _is_ready(cluster: Cluster, name: str) -> bool:
    pod = cluster.pod(name)
    return pod is not None and pod.is_ready


def _pod(cluster: Cluster, name: str) -> Pod:
    pod = cluster.pod(name)
    assert pod is not None, f"no pod {name}\n{cluster.describe()}"
    return pod


def test_training_goes_on_without_a_worker_and_takes_the_next_one(story: Story) -> None:
    gone, later = story.without_worker
    assert later > gone > 0
    old, new = story.addresses
    assert old != new


def test_no_push_is_missing_after_a_parameter_server_was_lost(story: Story) -> None:
    assert story.resumed[0].startswith("goes on at ")
    assert story.resumed[0].endswith("none is missing")


def test_one_coordinator_goes_on_while_workers_and_parameter_servers_change(story: Story) -> None:
    first, *others = story.coordinators
    assert first > 0
    assert others == [first, first]


def test_evicted_coordinator_saves_and_the_next_one_goes_on_from_there(story: Story) -> None:
    assert story.failures == [START_AGAIN]
    before, saved = story.saved_steps
    assert saved >= before > 0
    assert story.newest in story.resumed[1]
    assert f"resumed at {saved:,} env steps" in story.resumed[1]


def test_run_ends_well_and_leaves_its_result_on_the_shared_volume(story: Story) -> None:
    assert story.jobs == {"coordinator": "Complete", "evaluator": "Complete"}
    summary = json.loads((story.run / "summary.json").read_text())
    assert summary["env_steps"] >= story.saved_steps[1] + MORE_ENV_STEPS
    assert (story.run / "checkpoints" / "best.npz").exists()
    assert len((story.run / "evaluations.csv").read_text().splitlines()) > 2


def test_policies_let_through_what_a_run_needs_and_nothing_else(story: Story) -> None:
    assert story.used == {
        ("coordinator", "worker"),
        ("coordinator", "parameter-server"),
        ("worker", "parameter-server"),
        ("parameter-server", "worker"),
    }
    assert story.refused == {}  # nobody tried anything else
    allowed = {name for name, reached in story.reached.items() if reached}
    assert allowed == {"coordinator > worker-1", "parameter-server-0 > worker-0"}


def test_replay_takes_its_share_of_the_memory_limit_of_the_container(story: Story) -> None:
    assert MEMORY_LIMIT * 0.4 < story.replay_bytes <= MEMORY_LIMIT * 0.5


def test_nothing_is_left_of_the_cluster(story: Story) -> None:
    assert story.left == []  # a control group with a process in it cannot be removed
    assert str(story.folder) not in pathlib.Path("/proc/self/mounts").read_text()
