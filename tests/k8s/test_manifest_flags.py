"""The Kubernetes manifests: what each program is told there, read as the program reads it.

The operators' parts are played here: the variables of a pod, and TF_CONFIG.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

import pytest
from support import manifests
from support.manifests import EVERYTHING, FOLDERS, Object, Pods, of_kind, pods, pods_of, render

from ps_dqn.cluster import connections
from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.config import checks
from ps_dqn.flags import command_line, experiment, place, tasks

CLUSTER_ROLES = {"coordinator": "chief", "parameter-server": "ps", "worker": "worker"}

everything = pytest.mark.parametrize("name", EVERYTHING)


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


def _read_task(
    each: Pods, objects: tuple[Object, ...], index: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[ClusterSpec, Task]:
    """The cluster and the task as the program in this pod understands them."""
    values = command_line.new_flags()
    tasks.define_addresses(values)
    tasks.define_task(values)
    tasks.define_placement(values)
    experiment.define_num_actors(values)
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
        return place.of_task(values, CLUSTER_ROLES[each.role])


@pytest.mark.parametrize("name", [each for each in EVERYTHING if "tls" not in each])
def test_every_task_sees_the_same_cluster_and_its_own_place_in_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = render(name)
    specs = set()
    for role, job in CLUSTER_ROLES.items():
        each = pods_of(objects, role)
        for index in {0, each.count - 1}:
            spec, task = _read_task(each, objects, index, monkeypatch)
            assert task == Task(job, index)
            specs.add(spec)
    [spec] = specs
    # Each address is the name of a pod that is there, and its gRPC port.
    for role, job in CLUSTER_ROLES.items():
        each = pods_of(objects, role)
        [port] = [p["containerPort"] for p in each.container["ports"] if p["name"] != "health"]
        suffix = ".ours.svc" if each.owner["kind"] == "TFJob" else ""
        assert list(spec.addresses(job)) == [f"{dns}{suffix}:{port}" for dns in each.dns]


def test_with_tls_every_task_speaks_to_its_sidecar_which_knows_the_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = render("own tls")
    goes_to = dict(re.findall(r"accept = (.+)\nconnect = (.+)\n", _relay(objects, tmp_path)))
    assert goes_to["0.0.0.0:2443"] == "127.0.0.1:2222"
    for role, job in CLUSTER_ROLES.items():
        each = pods_of(objects, role)
        for index in {0, each.count - 1}:
            spec, task = _read_task(each, objects, index, monkeypatch)
            assert task == Task(job, index)
            if role != "coordinator":  # which nobody calls
                assert spec.addresses(job)[index].endswith(":2222")
            for other in {"parameter-server", "worker"} - {role}:
                called = [goes_to[own] for own in spec.addresses(CLUSTER_ROLES[other])]
                assert called == [f"{dns}:2443" for dns in pods_of(objects, other).dns]


@pytest.mark.parametrize("side", ["l", "r"])  # who has called the sidecar, and whom it calls
def test_with_tls_a_connection_ends_soon_whose_peer_s_node_is_gone(
    side: str, tmp_path: pathlib.Path
) -> None:
    text = _relay(render("own tls"), tmp_path)
    options = dict(re.findall(rf"^socket = {side}:(\w+)=(\d+)$", text, re.MULTILINE))
    assert options["SO_KEEPALIVE"] == "1"
    idle, ask, times = (int(options[f"TCP_KEEP{each}"]) for each in ("IDLE", "INTVL", "CNT"))
    assert (idle, ask) == (connections.IDLE_SECONDS, connections.ASK_SECONDS)
    seconds = idle + ask * times
    assert connections.SILENT_SECONDS <= seconds < connections.SILENT_SECONDS + ask


def _relay(objects: tuple[Object, ...], folder: pathlib.Path) -> str:
    """What the sidecar tells stunnel."""
    stunnel = folder / "stunnel"
    stunnel.write_text("#!/bin/sh\ncat <&3\n")
    stunnel.chmod(0o755)
    [script] = [
        each["data"]["relay.sh"]
        for each in of_kind(objects, "ConfigMap")
        if each["metadata"]["name"].endswith("tls-relay")
    ]
    environment = {**manifests.cluster_values(objects), "PATH": f"{folder}:/usr/bin:/bin"}
    command = ["sh", "-c", script]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout


def _defined_flags(module: str) -> set[str]:
    """The flags that a program says it has."""
    if module == "tensorboard.main":
        core_plugin = pytest.importorskip("tensorboard.plugins.core.core_plugin")
        parser = argparse.ArgumentParser()
        core_plugin.CorePluginLoader().define_flags(parser)
        text = parser.format_help()
    else:
        command = [sys.executable, "-m", module, "--help=all"]
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

    checks.check_workers(config, pods_of(render(name), "worker").count, is_remote=True)
    assert config.replay.replay_memory == "50%"  # of the container's limit, whatever it is


def test_the_flags_are_where_the_coordinator_reads_them() -> None:
    each = pods_of(render("base"), "coordinator")
    [path] = [
        mount["mountPath"]
        for mount in each.container["volumeMounts"]
        if mount["name"] == "experiment"
    ]
    assert each.flags["flagfile"] == f"{path}/experiment.flags"
