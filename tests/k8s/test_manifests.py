"""The Kubernetes manifests: that they are valid, belong together, and follow an overlay.

They are rendered by Kustomize and read here, without a Kubernetes cluster. So what a cluster does
with them is not tested: the scheduler (affinity, spread, taints, whether the pods fit), the network
plugin (CNI: whether it enforces NetworkPolicy), storage (CSI: classes, ReadWriteMany, fsGroup),
admission, DNS, the controllers of JobSet and TFJob, and the kubelet's probes.
"""

import json
import pathlib
from typing import Any

import kubernetes_validate
import pytest
from support import manifests
from support.manifests import EVERYTHING, Object, Pods, of_kind, one, pods, pods_of, render

from ps_dqn import __version__

CLUSTER_ROLES = ("coordinator", "parameter-server", "worker")
ROLES = {*CLUSTER_ROLES, "evaluator", "tensorboard"}
CUSTOM_KINDS = {"JobSet": "jobset.x-k8s.io/v1alpha2", "TFJob": "kubeflow.org/v1"}


def _newest_versions() -> list[str]:
    schemas = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    minors = {int(each.name.split(".")[1]) for each in schemas.glob("v1.*-local-strict")}
    return [f"1.{minor}" for minor in sorted(minors)[-3:]]


everything = pytest.mark.parametrize("name", EVERYTHING)


*OLDER, NEWEST = _newest_versions()


@pytest.mark.parametrize(
    "version", [NEWEST, *(pytest.param(each, marks=pytest.mark.thorough) for each in OLDER)]
)
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
        kubernetes_validate.validate(wrong, NEWEST, strict=True)


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
        offered = {
            port["name"]: port["containerPort"]
            for container in selected.containers
            for port in container["ports"]
        }
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
        mounts = [mount for container in each.containers for mount in container["volumeMounts"]]
        assert {mount["name"] for mount in mounts} == volumes.keys()
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert ("PersistentVolumeClaim", claim) in there
        for container in each.containers:
            for source in container.get("envFrom", []):
                assert ("ConfigMap", source["configMapRef"]["name"]) in there


@everything
def test_all_objects_are_in_one_namespace(name: str) -> None:
    objects = [each for each in render(name) if each["kind"] != "Namespace"]
    assert len({each["metadata"].get("namespace") for each in objects}) == 1


@everything
def test_the_flags_keep_their_name_when_they_change(name: str) -> None:
    # A hash would change the pod template of a Job, which Kubernetes refuses.
    volumes = pods_of(render(name), "coordinator").spec["volumes"]
    [flags] = [each["configMap"]["name"] for each in volumes if each["name"] == "experiment"]
    assert flags == ("mine-experiment" if name.startswith("own") else "experiment")


@everything
def test_the_image_is_this_version_wherever_no_overlay_says_another(name: str) -> None:
    own = name.startswith("own")
    wanted = "registry.example.com/ps-dqn:9" if own else f"ps-dqn:{__version__}"
    for each in pods(render(name)):
        gpu = "-gpu" if "nvidia.com/gpu" in each.container["resources"]["limits"] else ""
        assert each.container["image"] == wanted + gpu
        assert {c["image"] for c in each.containers[1:]} <= {f"ps-dqn-tls:{__version__}"}


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
