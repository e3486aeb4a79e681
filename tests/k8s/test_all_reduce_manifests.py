"""Runs without parameter servers on Kubernetes: what is not there, and who reaches whom."""

import pathlib
import re

import kubernetes_validate
import pytest
from support.manifests import (
    Object,
    cluster_values,
    kustomize,
    of_kind,
    one,
    pods,
    pods_of,
    render_overlay,
)

from ps_dqn import launch
from ps_dqn.flags import command_line, experiment, launching, tasks

ALL_REDUCE = ("--env_id=CartPole-v1", "--strategy=all_reduce", "--local_updates=1")
COUNTS = ("--workers=3", "--image=a:1", "--worker_image=a:2")
OVERLAYS = [each for each in launching.OVERLAYS if each not in ("jobset", "tfjob")]


@pytest.fixture
def launched(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def launched(*words: str) -> tuple[Object, ...]:
        assert launch.main(["launch", "k8s", "--name=mine", *COUNTS, *ALL_REDUCE, *words]) == 0
        return kustomize(tmp_path / "launch" / "mine")

    return launched


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_of_a_parameter_server_is_there(overlay: str, launched) -> None:
    objects = launched(f"--overlay={overlay}")
    assert {each.role for each in pods(objects)} >= {"coordinator", "worker"}
    names = [f"{each['kind']} {each['metadata']['name']}" for each in objects]
    assert not [name for name in names if "parameter-server" in name]
    assert cluster_values(objects)["NUM_PS"] == "0"
    for each in objects:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


def test_the_coordinator_sees_workers_alone_and_frees_them(
    launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    objects = launched()
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    coordinator, known = pods_of(objects, "coordinator"), cluster_values(objects)
    known["CPU_LIMIT"] = "2"
    mine = {*values, "ps_dqn.coordinator"} - {"flagfile"}
    words = [
        re.sub(r"\$\((\w+)\)", lambda match: known[match[1]], word)
        for word in coordinator.container["args"]
        if word.removeprefix("--").partition("=")[0] in mine
    ]
    command_line.parse(values, [*words, *ALL_REDUCE])
    has_servers = experiment.read(values).parameter_server.has_servers
    spec = tasks.read_placement(values, has_servers).spec
    assert spec.ps == ()
    assert spec.workers == tuple(f"mine-worker-{i}.mine-worker:2222" for i in range(3))
    assert coordinator.flags["free_stateful_sets"] == "$(WORKER)"
    assert "free_stateful_sets" not in pods_of(launched("--nofree_nodes"), "coordinator").flags


def test_workers_reach_each_other_where_they_add_up_and_nobody_else_does(launched) -> None:
    objects = launched()
    worker = pods_of(objects, "worker")
    assert worker.flags["all_reduce_port"] == "2223"
    assert {"name": "all-reduce", "containerPort": 2223} in worker.container["ports"]
    policies = of_kind(objects, "NetworkPolicy")
    [policy] = [each for each in policies if each["metadata"]["name"] == "mine-all-reduce"]
    selected = policy["spec"]["podSelector"]["matchLabels"]
    assert selected.items() <= worker.labels.items()
    for way, peers in (("ingress", "from"), ("egress", "to")):
        [rule] = policy["spec"][way]
        assert rule["ports"] == [{"port": 2223, "protocol": "TCP"}]
        [peer] = rule[peers]
        assert peer["podSelector"]["matchLabels"] == selected
    assert "2223" not in str([each for each in policies if each is not policy])


def test_an_overlay_of_ones_own_does_without_launch() -> None:
    objects = render_overlay(
        "namespace: ours\nresources: [{k8s}/base]\n"
        "replicas: [{{name: parameter-server, count: 0}}]\n"
        "components: [{k8s}/components/all-reduce]\n"
        "transformers: [{k8s}/counts, {k8s}/components/all-reduce/remove]\n"
    )
    assert one(objects, "StatefulSet", "worker")
    assert len(of_kind(objects, "StatefulSet")) == 1
    assert cluster_values(objects)["NUM_PS"] == "0"


@pytest.mark.parametrize(
    ("word", "what_to_do"),
    [
        ("--ps=2", "there are no parameter servers: leave it out"),
        ("--overlay=jobset", "take another one"),
        ("--cpu=parameter-server=2", "there are no parameter servers"),
        (
            "--tls_image=t:1",
            "what workers say to each other would not be encrypted: take a network plugin that "
            "encrypts",
        ),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    word: str, what_to_do: str, launched, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        launched(word)
    said = f"error: {word}: does not go with --strategy=all_reduce; {what_to_do}\n"
    assert capsys.readouterr().err == said
