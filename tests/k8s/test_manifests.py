"""The Kubernetes manifests: that they are valid, belong together, and fit the program.

They are rendered by Kustomize and read here, without a Kubernetes cluster. So what a cluster does
with them is not tested: the scheduler (affinity, spread, taints, whether the pods fit), the network
plugin (CNI: whether it enforces NetworkPolicy), storage (CSI: classes, ReadWriteMany, fsGroup),
admission, DNS, the controllers of JobSet and TFJob, and the kubelet's probes.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import kubernetes_validate
import pytest
from support import manifests
from support.manifests import EVERYTHING, FOLDERS, Object, Pods, of_kind, one, pods, pods_of, render

from cluster.spec import ClusterSpec, Task
from flags import command_line, experiment, tasks
from ps_dqn.config import checks

CLUSTER_ROLES = {"coordinator": "chief", "parameter-server": "ps", "worker": "worker"}
ROLES = {*CLUSTER_ROLES, "evaluator", "tensorboard"}
CUSTOM_KINDS = {"JobSet": "jobset.x-k8s.io/v1alpha2", "TFJob": "kubeflow.org/v1"}


def _newest_versions() -> list[str]:
    schemas = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    minors = {int(each.name.split(".")[1]) for each in schemas.glob("v1.*-local-strict")}
    return [f"1.{minor}" for minor in sorted(minors)[-3:]]


everything = pytest.mark.parametrize("name", EVERYTHING)


@pytest.mark.parametrize("version", _newest_versions())
def test_kubernetes_knows_every_field(version: str) -> None:
    # Pods of custom kinds are pods too. What several overlays have the same is looked at once.
    known = set()
    for name in EVERYTHING:
        custom = [each for each in pods(render(name)) if each.owner["kind"] in CUSTOM_KINDS]
        objects = [each for each in render(name) if each["kind"] not in CUSTOM_KINDS]
        objects += [{"apiVersion": "v1", "kind": "Pod", **each.template} for each in custom]
        assert len(objects) > 10
        for each in objects:
            text = json.dumps(each)
            if text not in known:
                kubernetes_validate.validate(each, version, strict=True)
                known.add(text)


def test_a_wrong_field_would_be_found() -> None:
    [wrong, *_] = of_kind(render("base"), "StatefulSet")
    wrong = {**wrong, "spec": {**wrong["spec"], "replica": 3}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(wrong, _newest_versions()[-1], strict=True)


@everything
def test_every_role_is_there_once(name: str) -> None:
    assert sorted(each.role for each in pods(render(name))) == sorted(ROLES)


@everything
def test_selectors_match_their_own_pods_alone(name: str) -> None:
    objects = render(name)
    owners = of_kind(objects, "StatefulSet", "Deployment")
    assert owners
    for owner in owners:
        taken = {each.role for each in pods(objects) if _selects(owner["spec"], each)}
        assert taken == {owner["metadata"]["labels"]["app.kubernetes.io/component"]}


@everything
def test_services_select_their_pods_and_name_ports_these_have(name: str) -> None:
    objects = render(name)
    services = of_kind(objects, "Service")
    assert len(services) == 4
    for service in services:
        selector = {"selector": {"matchLabels": service["spec"]["selector"]}}
        [selected] = [each for each in pods(objects) if _selects(selector, each)]
        assert selected.role == service["metadata"]["labels"]["app.kubernetes.io/component"]
        offered = {port["name"]: port["containerPort"] for port in selected.container["ports"]}
        for port in service["spec"]["ports"]:
            assert offered[port["targetPort"]] == port["port"]


@everything
def test_metrics_are_behind_the_named_port_of_a_service(name: str) -> None:
    for role in CLUSTER_ROLES:
        service = one(render(name), "Service", role)
        assert {"name": "health", "port": 8080, "targetPort": "health"} in service["spec"]["ports"]


@everything
def test_pods_are_found_by_name_before_they_are_ready(name: str) -> None:
    # Names of single pods come from headless Services; the coordinator waits for tasks by name.
    objects = render(name)
    headless = {
        each["metadata"]["name"]
        for each in of_kind(objects, "Service")
        if each["spec"].get("clusterIP") == "None" and each["spec"]["publishNotReadyAddresses"]
    }
    for owner in of_kind(objects, "StatefulSet"):
        assert owner["spec"]["serviceName"] in headless
    for each in pods(objects):
        assert each.spec.get("subdomain", next(iter(headless))) in headless


@everything
def test_what_pods_mount_and_read_exists(name: str) -> None:
    objects = render(name)
    there = {(each["kind"], each["metadata"]["name"]) for each in objects}
    for each in pods(objects):
        volumes = {volume["name"]: volume for volume in each.spec["volumes"]}
        assert {mount["name"] for mount in each.container["volumeMounts"]} == volumes.keys()
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert ("PersistentVolumeClaim", claim) in there
        for source in each.container.get("envFrom", []):
            assert ("ConfigMap", source["configMapRef"]["name"]) in there


@everything
def test_all_objects_are_in_one_namespace(name: str) -> None:
    objects = [each for each in render(name) if each["kind"] != "Namespace"]
    assert len({each["metadata"].get("namespace") for each in objects}) == 1


@everything
def test_the_flags_keep_their_name_when_they_change(name: str) -> None:
    # A hash would change the pod template of a Job, which Kubernetes refuses.
    volumes = pods_of(render(name), "coordinator").spec["volumes"]
    [flags] = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
    assert flags == ("mine-experiment" if name.startswith("own") else "experiment")


def _environment(each: Pods, values: dict[str, str], index: int) -> dict[str, str]:
    """What Kubernetes gives pod `index`, by the environment that its container asks for."""
    given = dict(values) if each.container.get("envFrom") else {}
    for variable in each.container.get("env", []):
        source = variable["valueFrom"]
        if "fieldRef" in source:
            # Kubernetes 1.28 labels the pods of StatefulSets with it, and only these.
            assert source["fieldRef"]["fieldPath"].endswith("['apps.kubernetes.io/pod-index']")
            assert each.owner["kind"] == "StatefulSet"
            given[variable["name"]] = str(index)
        else:
            assert source["resourceFieldRef"] == {"resource": "limits.cpu", "divisor": "1"}
            given[variable["name"]] = each.container["resources"]["limits"]["cpu"]
    if each.owner["kind"] == "JobSet":
        given["JOB_COMPLETION_INDEX"] = str(index)
    if each.owner["kind"] == "TFJob":
        given["TF_CONFIG"] = _tf_config(each, index)
    return given


def _tf_config(each: Pods, index: int) -> str:
    """What the training operator writes (genTFConfigJSONStr)."""
    addresses = {}
    for kind, replicas in each.owner["spec"]["tfReplicaSpecs"].items():
        [container] = replicas["template"]["spec"]["containers"]
        [port] = [p["containerPort"] for p in container["ports"] if p["name"] == "tfjob-port"]
        name = f"{each.owner['metadata']['name']}-{kind.lower()}"
        addresses[kind.lower()] = [
            f"{name}-{i}.ours.svc:{port}" for i in range(replicas["replicas"])
        ]
    task = {"type": CLUSTER_ROLES[each.role], "index": index}
    return json.dumps({"cluster": addresses, "task": task, "environment": "cloud"})


def _expanded(text: str, environment: dict[str, str]) -> str:
    """As Kubernetes does: an unknown variable stays as it is, and nothing reads that."""
    text = re.sub(r"\$\((\w+)\)", lambda match: environment.get(match[1], match[0]), text)
    assert "$(" not in text
    return text


def _place(
    each: Pods, objects: tuple[Object, ...], index: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[ClusterSpec, Task]:
    """The cluster and the task as the program in this pod understands them."""
    values = command_line.new_flags()
    tasks.define_addresses(values)
    tasks.define_task(values)
    tasks.define_placement(values)
    environment = _environment(each, manifests.cluster_values(objects), index)
    words = [
        _expanded(word, environment)
        for word in each.container["args"]
        if word.removeprefix("--").partition("=")[0] in {*values, each.container["args"][0]}
    ]
    words = [word for word in words if not word.startswith("--flagfile")]
    with monkeypatch.context() as patch:
        for variable in ("TF_CONFIG", "POD_INDEX", "JOB_COMPLETION_INDEX"):
            patch.delenv(variable, raising=False)
        for variable, value in environment.items():
            patch.setenv(variable, value)
        command_line.parse(values, words)
        if each.role == "coordinator":
            return tasks.read_placement(values).spec, Task("chief", 0)
        return tasks.read_task(values, CLUSTER_ROLES[each.role])


@everything
def test_every_task_sees_the_same_cluster_and_its_own_place_in_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = render(name)
    specs = set()
    for role, job in CLUSTER_ROLES.items():
        each = pods_of(objects, role)
        for index in {0, each.count - 1}:
            spec, task = _place(each, objects, index, monkeypatch)
            assert task == Task(job, index)
            specs.add(spec)
    [spec] = specs
    # Each address is the name of a pod that is there, and its gRPC port.
    for role, job in CLUSTER_ROLES.items():
        each = pods_of(objects, role)
        [port] = [p["containerPort"] for p in each.container["ports"] if p["name"] != "health"]
        suffix = ".ours.svc" if each.owner["kind"] == "TFJob" else ""
        assert list(spec.addresses(job)) == [f"{dns}{suffix}:{port}" for dns in each.dns]


def _defined_flags(module: str) -> set[str]:
    """The flags that a program says it has."""
    if module == "tensorboard.main":
        core_plugin = pytest.importorskip("tensorboard.plugins.core.core_plugin")
        parser = argparse.ArgumentParser()
        core_plugin.CorePluginLoader().define_flags(parser)
        text = parser.format_help()
    else:
        command = [sys.executable, "-m", module, "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ *--(?:\[no\])?(\w+)", text, re.MULTILINE))


@pytest.fixture(scope="session")
def defined_flags() -> dict[str, set[str]]:
    modules = {each.container["args"][0] for each in pods(render("base"))}
    return {module: _defined_flags(module) for module in modules}


@everything
def test_every_flag_is_one_of_its_program(name: str, defined_flags: dict[str, set[str]]) -> None:
    for each in pods(render(name)):
        module = each.container["args"][0]
        assert each.flags.keys() <= defined_flags[module], module


@pytest.mark.parametrize("name", FOLDERS)
def test_the_experiment_is_one_that_can_be_run(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "experiment.flags"
    [text] = [
        each["data"][path.name]
        for each in of_kind(render(name), "ConfigMap")
        if path.name in each["data"]
    ]
    path.write_text(text)
    values = command_line.new_flags()
    experiment.define(values)

    command_line.parse(values, ["coordinator", f"--flagfile={path}"])
    config = experiment.read(values)

    checks.check_workers(config, pods_of(render(name), "worker").count)
    assert config.replay.replay_memory == "50%"  # of the container's limit, whatever it is


def test_the_flags_are_where_the_coordinator_reads_them() -> None:
    each = pods_of(render("base"), "coordinator")
    [path] = [
        mount["mountPath"]
        for mount in each.container["volumeMounts"]
        if mount["name"] == "experiment"
    ]
    assert each.flags["flagfile"] == f"{path}/experiment.flags"


@everything
def test_the_image_is_this_version_wherever_no_overlay_says_another(name: str) -> None:
    project = (manifests.ROOT / "pyproject.toml").read_text()
    [version] = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)
    wanted = "registry.example.com/ps-dqn:9" if name.startswith("own") else f"ps-dqn:{version}"
    for each in pods(render(name)):
        gpu = "-gpu" if "nvidia.com/gpu" in each.container["resources"]["limits"] else ""
        assert each.container["image"] == wanted + gpu


@pytest.mark.parametrize("kind", ["base", "jobset", "tfjob"])
def test_counts_of_an_overlay_reach_everything(kind: str) -> None:
    objects = render(f"own {kind}")
    assert pods_of(objects, "worker").count == 17
    assert pods_of(objects, "parameter-server").count == 3
    values = manifests.cluster_values(objects)
    assert (values["NUM_WORKERS"], values["NUM_PS"]) == ("17", "3")  # strings, as data must be


def test_one_line_changes_the_number_of_workers() -> None:
    text = "resources: [{k8s}/base]\ntransformers: [{k8s}/counts]\n"
    line = "replicas: [{{name: worker, count: 5}}]\n"

    def without_counts(objects: tuple[Object, ...]) -> list[Any]:
        return [each for each in objects if each["kind"] not in ("ConfigMap", "StatefulSet")]

    before, after = manifests.render_overlay(text), manifests.render_overlay(text + line)

    assert manifests.cluster_values(before)["NUM_WORKERS"] == "2"
    assert manifests.cluster_values(after) == {
        **manifests.cluster_values(before),
        "NUM_WORKERS": "5",
    }
    assert pods_of(after, "worker").count == 5
    assert without_counts(before) == without_counts(after)


def test_an_overlay_on_an_overlay_changes_the_counts_too() -> None:
    objects = manifests.render_overlay(
        "resources: [{k8s}/overlays/cpu-fleet]\n"
        "replicas: [{{name: worker, count: 7}}]\n"
        "transformers: [{k8s}/counts]\n"
    )
    assert manifests.cluster_values(objects)["NUM_WORKERS"] == "7"
    assert manifests.cluster_values(objects)["NUM_PS"] == "8"


def test_a_prefix_reaches_the_names_that_addresses_are_made_of() -> None:
    values = manifests.cluster_values(render("own base"))
    assert values["COORDINATOR"] == "mine-coordinator"
    assert values["PARAMETER_SERVER"] == "mine-parameter-server"
    assert values["WORKER"] == "mine-worker"
    spec = pods_of(render("own base"), "coordinator").spec
    assert (spec["hostname"], spec["subdomain"]) == ("mine-coordinator", "mine-coordinator")


def _selects(spec: Object, each: Pods) -> bool:
    return manifests.matches(spec["selector"], each.labels)
