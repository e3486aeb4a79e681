"""A run as a cluster has it after a launch: objects, pods, and a program that tells of them."""

import copy
import functools
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import pytest

from ps_dqn import launch
from ps_dqn.kubernetes import running
from support.fake_programs import FakeKubectl
from support.manifests import Object, kustomize, of_kind, pods

WHERE = "--namespace=ours"
MINE = "--selector=app.kubernetes.io/instance=mine"


@functools.cache
def _made(words: Sequence[str]) -> Sequence[Object]:
    usual = ["--name=mine", WHERE, "--workers=3", "--ps=2", "--image=a:1", "--worker_image=a:2"]
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "mine"
        words = [*usual, "--env_id=CartPole-v1", f"--output={output}", *words]
        assert launch.main(["launch", "k8s", *words]) == 0
        return kustomize(output)


def made(*words: str) -> list[Object]:
    """The objects of a launch, as they are applied; to change at will."""
    return copy.deepcopy([*_made(words)])


def pod(
    objects: list[Object], role: str, number: int, phase: str = "Running", **status: Any
) -> Object:
    """A pod of a role, as a cluster would have it."""
    [template] = [each.template for each in pods(objects) if each.role == role]
    ready = {"type": "Ready", "status": str(phase == "Running")}
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"mine-{role}-{number}",
            "labels": template["metadata"]["labels"],
            "creationTimestamp": f"2026-01-01T00:00:{number:02}Z",
        },
        "status": {
            "phase": phase,
            "conditions": [ready],
            "containerStatuses": [{"restartCount": number, "state": {"running": {}}}],
            **status,
        },
    }


def all_pods(objects: list[Object]) -> list[Object]:
    return [pod(objects, each.role, i) for each in pods(objects) for i in range(each.count)]


def cluster_of(
    objects: list[Object], folder: pathlib.Path, patch: pytest.MonkeyPatch
) -> FakeKubectl:
    """Puts a program in kubectl's place, for a cluster with these objects; goes into the folder."""
    fake = FakeKubectl(folder / "bin")
    patch.setenv("PATH", str(fake.folder))
    patch.chdir(folder)
    fake.has(running.KINDS, objects)
    kept = of_kind(objects, "ConfigMap", "PersistentVolumeClaim")
    fake.has("configmap,persistentvolumeclaim", kept)
    fake.has("configmaps", [])
    return fake


def ask(command: str, *words: str) -> int:
    """Asks something of the run; the exit code."""
    return launch.main(["launch", command, "--name=mine", WHERE, *words])
