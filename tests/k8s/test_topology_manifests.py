"""Replay servers and actors on Kubernetes: what is launched with a topology, what is refused."""

import collections
import dataclasses
import pathlib
import re
from typing import NamedTuple

import kubernetes_validate
import pytest
from support import manifests
from support.command_lines import parsed
from support.manifests import Object, of_kind, pods_of

from ps_dqn import __version__, launch
from ps_dqn.cluster.spec import Task
from ps_dqn.flags import command_line, experiment, place, tasks

JOBS = {"coordinator": "chief", "parameter-server": "ps", "worker": "worker"}
# Who opens connections to whom, whatever the topology.
CALLS = {
    ("coordinator", "parameter-server"),
    ("coordinator", "worker"),
    ("worker", "parameter-server"),
    ("parameter-server", "worker"),
}


class Extra(NamedTuple):
    """A role that others have not."""

    job: str
    first: int  # number of its first task
    count: int


@dataclasses.dataclass(frozen=True)
class Case:
    """A topology with tasks that others have not."""

    topology: str
    preset: str
    extra: dict[str, Extra]
    counts: tuple[str, ...]  # flags that say how many there are
    calls: set[tuple[str, str]]  # that they open, or that are opened to them

    @property
    def words(self) -> list[str]:
        return [
            *("launch", "k8s", "--name=mine", "--namespace=ours", "--ps=2", "--image=ps-dqn:1"),
            *("--workers=2", "--num_learners=2", f"--preset=cartpole,{self.preset}"),
        ]


CASES = [
    Case(
        "apex",
        "ape_x",
        {"replay-server": Extra("replay", 0, 2), "actor": Extra("worker", 2, 3)},
        ("--replay_servers=2", "--num_actors=3"),
        {
            *(("coordinator", role) for role in ("replay-server", "actor")),
            *(("actor", role) for role in ("parameter-server", "replay-server")),
            *((role, "actor") for role in ("parameter-server", "replay-server")),
            *{("worker", "replay-server"), ("replay-server", "worker")},
        },
    ),
    Case(
        "seed",
        "seed",
        {"actor": Extra("actor", 0, 5)},
        ("--num_actors=5",),
        {("coordinator", "actor"), ("worker", "actor")},
    ),
]


def launched(case: Case, folder: pathlib.Path, *words: str) -> tuple[Object, ...]:
    assert launch.main([*case.words, f"--output={folder}", *words]) == 0
    return manifests.kustomize(folder)


@pytest.fixture(params=CASES, ids=lambda case: case.topology)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def objects(case: Case, tmp_path: pathlib.Path) -> tuple[Object, ...]:
    memory = ",".join(f"{role}=9Gi" for role in case.extra)
    return launched(case, tmp_path / "run", *case.counts, f"--memory={memory}")


def test_it_is_valid_for_kubernetes(case: Case, objects: tuple[Object, ...]) -> None:
    for each in objects:
        kubernetes_validate.validate(each, "1.33", strict=True)
    base = pods_of(objects, "worker")
    assert base.container["resources"]["limits"]["memory"] != "9Gi"
    for role, extra in case.extra.items():
        found = pods_of(objects, role)
        assert found.count == extra.count
        assert found.container["resources"]["limits"]["memory"] == "9Gi"
        assert found.container["securityContext"] == base.container["securityContext"]
        for field in ("securityContext", "automountServiceAccountToken", "enableServiceLinks"):
            assert found.spec[field] == base.spec[field]
        assert [b["spec"]["selector"] for b in of_kind(objects, "PodDisruptionBudget")].count(
            found.owner["spec"]["selector"]
        ) == 1


def test_every_task_sees_the_same_cluster_and_its_own_place_in_it(
    case: Case, objects: tuple[Object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    values, specs, dns = manifests.cluster_values(objects), set(), collections.defaultdict(list)
    base = {role: Extra(job, 0, pods_of(objects, role).count) for role, job in JOBS.items()}
    for role, (job, first, count) in (base | case.extra).items():
        each = pods_of(objects, role)
        dns[job] += each.dns
        for index in {first, first + count - 1}:
            given = {**values, "CPU_LIMIT": "2", "POD_INDEX": str(index)}
            monkeypatch.setenv("POD_INDEX", str(index))
            words = [
                re.sub(r"\$\((\w+)\)", lambda match, of=given: of[match[1]], word)
                for word in each.container["args"]
            ]
            flags = command_line.new_flags()
            experiment.define(flags)
            tasks.define_addresses(flags)
            tasks.define_task(flags)
            tasks.define_placement(flags)
            names = {*flags, words[0]}
            own = [word for word in words if word.removeprefix("--").partition("=")[0] in names]
            own = [word for word in own if not word.startswith("--flagfile")]
            told = (f"--preset={case.preset}", "--num_learners=2") if job == "chief" else ()
            command_line.parse(flags, [*own, *told])
            if job == "chief":
                specs.add(tasks.read_placement(flags).spec)
                continue
            spec, task = place.of_task(flags, job)
            assert task == Task(job, index)
            specs.add(spec)
    [spec] = specs
    for job in {*dns} - {"chief"}:
        assert [each.removesuffix(":2222") for each in spec.addresses(job)] == dns[job]


def test_they_are_freed_too(case: Case, objects: tuple[Object, ...]) -> None:
    [role] = of_kind(objects, "Role")
    names = ["mine-worker", "mine-parameter-server", *(f"mine-{role}" for role in case.extra)]
    assert role["rules"][0]["resourceNames"] == names
    words = pods_of(objects, "coordinator").container["args"]
    said = [word for word in words if word.startswith("--free_stateful_sets")]
    flags = parsed(*said)  # the last one counts
    assert flags.free_stateful_sets == [
        f"$({role.replace('-', '_').upper()})"
        for role in ("worker", "parameter-server", *case.extra)
    ]


def _component(selector: Object) -> str:
    return selector["matchLabels"]["app.kubernetes.io/component"]


def test_tasks_reach_those_they_call_and_nobody_else(
    case: Case, objects: tuple[Object, ...]
) -> None:
    policies = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "NetworkPolicy")
    }
    of_roles = [policies[f"mine-{role}"] for role in [*JOBS, *case.extra]]
    seen = {
        way: {
            (_component(spec["podSelector"]), _component(peer["podSelector"]), port["protocol"])
            for spec in of_roles
            for rule in spec.get(way, [])
            for peer in rule[side]
            for port in rule["ports"]
        }
        for way, side in (("ingress", "from"), ("egress", "to"))
    }
    calls = {(*call, "TCP") for call in CALLS | case.calls}
    wanted = calls | {(who, target, "UDP") for who, target, _ in calls if who == "coordinator"}
    assert seen["egress"] == wanted
    assert {(source, target, way) for target, source, way in seen["ingress"]} == wanted
    for name in ("mine-dns", "mine-metrics"):
        [among] = policies[name]["podSelector"]["matchExpressions"]
        assert {*case.extra} <= {*among["values"]}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--overlay=jobset",), "--topology={0}: not with --overlay=jobset"),
        (("--tls_image=ps-dqn-tls:1",), "--topology={0}: not with --tls_image=ps-dqn-tls:1"),
        (("--workers=5",), "--workers=5: with --topology={0}"),
        (
            ("--topology=local", "--num_learners=1", "--replay_servers=1"),
            "--replay_servers=1: has no effect without --topology=apex",
        ),
    ],
)
def test_what_cannot_be_launched_is_refused(
    case: Case,
    tmp_path: pathlib.Path,
    words: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture,
) -> None:
    with pytest.raises(SystemExit):
        launch.main([*case.words, f"--output={tmp_path / 'run'}", *words])
    assert says.format(case.topology) in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [(), ("--strategy=all_reduce", "--local_updates=1")])
def test_a_run_without_them_has_none(tmp_path: pathlib.Path, words: tuple[str, ...]) -> None:
    servers = () if words else ("--ps=1",)
    said = ("launch", "k8s", "--name=mine", "--image=ps-dqn:1", "--workers=2", *servers, *words)
    assert launch.main([*said, "--preset=cartpole", f"--output={tmp_path / 'run'}"]) == 0
    found = manifests.kustomize(tmp_path / "run")
    for case in CASES:
        for role in case.extra:
            assert role.replace("-", "_").upper() not in manifests.cluster_values(found)
            assert not [each for each in found if f"'{role}'" in str(each)]


def test_actors_go_with_workers_that_hold_the_parameters(tmp_path: pathlib.Path) -> None:
    said = ("launch", "k8s", "--name=mine", "--image=ps-dqn:1", "--workers=2", "--num_learners=2")
    way = ("--strategy=all_reduce", "--local_updates=1", "--preset=cartpole,seed")
    assert launch.main([*said, *way, f"--output={tmp_path / 'run'}"]) == 0
    objects = manifests.kustomize(tmp_path / "run")
    words = pods_of(objects, "coordinator").container["args"]
    assert words[-1] == "--free_stateful_sets=$(WORKER),$(ACTOR)"
    [role] = of_kind(objects, "Role")
    assert {"mine-worker", "mine-actor"} <= {*role["rules"][0]["resourceNames"]}


@pytest.mark.parametrize("component", ["ape-x", "seed"])
def test_an_overlay_of_ones_own_has_the_image_of_this_version(component: str) -> None:
    objects = manifests.render_overlay(
        f"resources: [{{k8s}}/base]\ncomponents: [{{k8s}}/components/{component}]\n"
        f"transformers: [{{k8s}}/counts, {{k8s}}/components/{component}/counts]\n"
    )
    images = {each.container["image"] for each in manifests.pods(objects)}
    assert images == {f"ps-dqn:{__version__}"}


def test_learners_alone_get_what_workers_are_given(tmp_path: pathlib.Path) -> None:
    case = CASES[0]
    given = ("--overlay=gpu-worker", "--worker_image=ps-dqn:cuda", "--cpu=worker=8,actor=500m")
    objects = launched(case, tmp_path / "run", *case.counts, *given)
    learner, actor = (pods_of(objects, role).container for role in ("worker", "actor"))
    assert (learner["image"], actor["image"]) == ("ps-dqn:cuda", "ps-dqn:1")
    assert learner["resources"]["limits"] == {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert actor["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
