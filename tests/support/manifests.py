"""What the tests of the Kubernetes manifests share: rendered folders, and the objects in them.

Nothing here needs a Kubernetes cluster: `kubectl kustomize` runs on this machine alone.
"""

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
K8S = ROOT / "k8s"
Object = dict[str, Any]

_OVERLAYS = sorted((K8S / "overlays").glob("*/kustomization.yaml"))
FOLDERS = ("base", *(f"overlays/{each.parent.name}" for each in _OVERLAYS))

# What an overlay of somebody's own may say; {k8s} is the way to the folder.
_OWN = """
namePrefix: mine-
namespace: ours
labels:
  - pairs: {{app.kubernetes.io/instance: mine}}
    includeSelectors: true
replicas:
  - {{name: worker, count: 17}}
  - {{name: parameter-server, count: 3}}
images:
  - {{name: ps-dqn, newName: registry.example.com/ps-dqn, newTag: "9"}}
resources: [{k8s}/base]
"""
OWN_OVERLAYS = {
    "own base": _OWN + "transformers: [{k8s}/counts]\n",
    "own jobset": _OWN
    + "components: [{k8s}/components/jobset]\n"
    + "transformers: [{k8s}/counts, {k8s}/components/jobset/assemble]\n",
    "own tfjob": _OWN
    + "components: [{k8s}/components/tfjob]\n"
    + "transformers: [{k8s}/counts, {k8s}/components/tfjob/assemble]\n",
    "own free": _OWN
    + "components: [{k8s}/components/free-nodes]\n"
    + "transformers: [{k8s}/counts]\n",
    "own tls": _OWN + "components: [{k8s}/components/tls]\n" + "transformers: [{k8s}/counts]\n",
}
EVERYTHING = (*FOLDERS, *OWN_OVERLAYS)

# By this name the training operator finds the container that it gives TF_CONFIG.
TFJOB_CONTAINER = "tensorflow"


def experiment_patch(flags: str) -> str:
    """An item of an overlay's `patches:` that makes these flags the experiment's."""
    return f"""\
  - target: {{{{kind: ConfigMap, name: experiment}}}}
    patch: |-
      - op: replace
        path: /data/experiment.flags
        value: {json.dumps(flags)}
"""


@functools.cache
def render(name: str) -> tuple[Object, ...]:
    """The objects of a folder of k8s or of one of `OWN_OVERLAYS`; rendered once, not to change."""
    if name in OWN_OVERLAYS:
        return render_overlay(OWN_OVERLAYS[name])
    return kustomize(K8S / name)


def render_overlay(text: str) -> tuple[Object, ...]:
    """The objects of a kustomization outside the repository; `{k8s}` in it is the way there."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        way = os.path.relpath(K8S, folder)  # Kustomize takes no absolute path
        (folder / "kustomization.yaml").write_text(text.format(k8s=way))
        return kustomize(folder)


def kustomize(folder: pathlib.Path) -> tuple[Object, ...]:
    """The objects of a folder."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    ran = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""  # warns of deprecated fields
    return tuple(yaml.safe_load_all(ran.stdout))


def of_kind(objects: Iterable[Object], *kinds: str) -> list[Object]:
    return [each for each in objects if each["kind"] in kinds]


def one(objects: Iterable[Object], kind: str, component: str) -> Object:
    """The only object of this kind and component."""
    [found] = [
        each
        for each in of_kind(objects, kind)
        if each["metadata"]["labels"].get("app.kubernetes.io/component") == component
    ]
    return found


def cluster_values(objects: Iterable[Object]) -> dict[str, str]:
    """What the ConfigMap `cluster` gives every pod."""
    [found] = [
        each
        for each in of_kind(objects, "ConfigMap")
        if each["metadata"]["name"].endswith("cluster")
    ]
    return found["data"]


@dataclasses.dataclass(frozen=True)
class Pods:
    """The pods of one role."""

    role: str
    owner: Object  # the object they come from
    template: Object
    count: int
    dns: tuple[str, ...]  # their names within the namespace; empty where nobody needs one

    @property
    def labels(self) -> dict[str, str]:
        return self.template["metadata"]["labels"]

    @property
    def spec(self) -> Object:
        return self.template["spec"]

    @property
    def container(self) -> Object:
        [container] = self.spec["containers"]
        return container

    @property
    def containers(self) -> list[Object]:
        """That one, and those beside it."""
        return [self.container, *self.spec.get("initContainers", [])]

    @property
    def flags(self) -> dict[str, str]:
        """The flags of its args as they stand there; a flag without a value has an empty one."""
        words = [word.removeprefix("--").partition("=") for word in self.container["args"][1:]]
        return {name: value for name, _, value in words}


def pods(objects: Iterable[Object]) -> list[Pods]:
    """Every kind of pod that the objects make."""
    found = []
    for each in objects:
        if each["kind"] in ("Job", "StatefulSet", "Deployment"):
            found.append(_core_pods(each))
        elif each["kind"] == "JobSet":
            found += [_jobset_pods(each, job) for job in each["spec"]["replicatedJobs"]]
        elif each["kind"] == "TFJob":
            found += [
                _tfjob_pods(each, kind, replicas)
                for kind, replicas in each["spec"]["tfReplicaSpecs"].items()
            ]
    return found


def pods_of(objects: Iterable[Object], role: str) -> Pods:
    [found] = [each for each in pods(objects) if each.role == role]
    return found


def _role(template: Object) -> str:
    return template["metadata"]["labels"]["app.kubernetes.io/component"]


def _core_pods(owner: Object) -> Pods:
    template, name = owner["spec"]["template"], owner["metadata"]["name"]
    count, spec = owner["spec"].get("replicas", 1), template["spec"]
    dns = []
    if owner["kind"] == "StatefulSet":
        first = owner["spec"].get("ordinals", {"start": 0})["start"]
        dns = [f"{name}-{first + i}.{owner['spec']['serviceName']}" for i in range(count)]
    elif "subdomain" in spec:
        dns = [f"{spec['hostname']}.{spec['subdomain']}"]
    return Pods(_role(template), owner, template, count, tuple(dns))


def _jobset_pods(owner: Object, job: Object) -> Pods:
    """One Job's; https://jobset.sigs.k8s.io: <jobset>-<replicatedJob>-<job>-<pod>.<jobset>."""
    spec, name = job["template"]["spec"], owner["metadata"]["name"]
    dns = [f"{name}-{job['name']}-0-{i}.{name}" for i in range(spec["completions"])]
    return Pods(_role(spec["template"]), owner, spec["template"], spec["completions"], tuple(dns))


def _tfjob_pods(owner: Object, kind: str, replicas: Object) -> Pods:
    """One replica type's; each pod has a Service of its own, <tfjob>-<type>-<index>."""
    name, count = owner["metadata"]["name"], replicas["replicas"]
    dns = [f"{name}-{kind.lower()}-{i}" for i in range(count)]
    return Pods(_role(replicas["template"]), owner, replicas["template"], count, tuple(dns))


def matches(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a Kubernetes label selector takes something with these labels."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for each in selector.get("matchExpressions", []):
        tests = {
            "In": labels.get(each["key"]) in each.get("values", []),
            "NotIn": labels.get(each["key"]) not in each.get("values", []),
            "Exists": each["key"] in labels,
            "DoesNotExist": each["key"] not in labels,
        }
        if not tests[each["operator"]]:
            return False
    return True
