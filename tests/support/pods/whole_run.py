"""A run as `ps-dqn launch k8s` writes it, whose pods live here from the first one to its end."""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from ps_dqn import launch
from support.manifests import Object, kustomize
from support.pods import cluster as pods_cluster
from support.pods import seen
from support.pods.cluster import Cluster

SECONDS = 300.0
COORDINATOR = "mine-coordinator"
# A short run, whatever its topology.
SHORT = (
    *("--hidden_sizes=16,16", "--jit_compile=none", "--target_return=inf"),
    *("--min_replay_size=200", "--replay_capacity=20000", "--metrics_period=1000"),
    *("--eval_period=10000", "--eval_episodes=2", "--confirm_episodes=0"),
)
_USUAL = ("--overlay=local", "--image=ps-dqn:1", "--name=mine")
# Nobody of these is of the cluster.
_REMOVED = ("tensorboard", "evaluator")


@dataclasses.dataclass
class Seen:
    """What was seen of a run: while every task worked, and at its end."""

    summary: dict[str, Any]
    has_tensorflow: dict[str, bool]  # by pod, of all that were there while every task worked
    used: set[tuple[str, str]]  # roles, who connected to whom
    refused: dict[str, int]  # connections that a policy kept from being made
    freed: list[str]  # StatefulSets, at the end


def unavailable() -> str:
    """Why nothing can be run here, or an empty text."""
    reason = pods_cluster.unavailable()
    return reason or ("" if shutil.which("openssl") else "openssl is not installed")


def launched(folder: pathlib.Path, *words: str) -> list[Object]:
    """The objects of a run, without those that are not of its cluster."""
    folder = folder / "launched"
    given = ["launch", "k8s", *_USUAL, f"--output={folder}", *SHORT, *words]
    assert launch.main(given) == 0
    return [
        each
        for each in kustomize(folder)
        if each["metadata"]["labels"].get("app.kubernetes.io/component") not in _REMOVED
    ]


def run(folder: pathlib.Path, works: Callable[[Cluster], bool], *words: str) -> Seen:
    """Runs it to its end.

    Args:
        folder: an empty one, for volumes and logs.
        works: whether every task has done its part by now.
        words: flags of the launch and of its experiment.

    Raises:
        AssertionError: it takes too long, ends before every task has worked, or does not end well.
    """
    objects = launched(folder, *words)
    with Cluster(objects, folder) as cluster:
        job = cluster.jobs[COORDINATOR]
        at_work = []

        def works_or_ended() -> bool:
            at_work[:] = [works(cluster)]
            return at_work[0] or job.state != "Active"

        cluster.until(works_or_ended, SECONDS, "every task to work")
        assert at_work[0], f"ended before\n{cluster.describe()}"
        pods = cluster.pods()
        has_tensorflow = {pod.name: seen.has_loaded(pod, "/tensorflow/") for pod in pods}
        used, _ = seen.calls(cluster)
        cluster.until(lambda: job.state != "Active", SECONDS, "the end of the run")
        assert job.state == "Complete", cluster.describe()
        assert cluster.api
        assert {code for _, code in cluster.api.requests} == {200}
        return Seen(
            json.loads((folder / "claims" / "mine-runs" / "mine" / "summary.json").read_text()),
            has_tensorflow,
            used,
            seen.calls(cluster)[1],
            [name for name, _ in cluster.api.requests],
        )
