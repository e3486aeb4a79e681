"""Replay servers and actors on Kubernetes: what is launched with a topology, what is refused."""

import dataclasses
import pathlib
import re

import kubernetes_validate
import pytest
from support import manifests
from support.command_lines import parsed
from support.manifests import Object, of_kind, pods_of

from ps_dqn import launch
from ps_dqn.cluster.spec import Task
from ps_dqn.flags import command_line, experiment, tasks

JOBS = {"coordinator": "chief", "parameter-server": "ps", "worker": "worker"}


@dataclasses.dataclass(frozen=True)
class Case:
    """A topology with tasks that others have not."""

    topology: str
    preset: str
    workers: int
    role: str
    job: str
    count: str  # the flag that says how many there are
    told: tuple[str, ...]  # flags of the experiment that tasks' places depend on
    from_workers: bool  # they call workers, too

    @property
    def words(self) -> list[str]:
        return [
            *("launch", "k8s", "--name=mine", "--namespace=ours", "--ps=2", "--image=ps-dqn:1"),
            *(f"--preset=cartpole,{self.preset}", f"--workers={self.workers}"),
            *([f"--num_learners={self.workers}"] if self.topology == "seed" else []),
        ]


CASES = [
    Case(
        *("apex", "ape_x", 3, "replay-server", "replay", "--replay_servers=2"),
        ("--topology=apex", "--replay=prioritized"),
        from_workers=True,
    ),
    Case(
        *("seed", "seed", 2, "actor", "actor", "--num_actors=5"),
        ("--topology=seed", "--num_learners=2"),
        from_workers=False,
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
    return launched(case, tmp_path / "run", case.count, f"--memory={case.role}=9Gi")


def test_it_is_valid_for_kubernetes(case: Case, objects: tuple[Object, ...]) -> None:
    for each in objects:
        kubernetes_validate.validate(each, "1.33", strict=True)
    assert pods_of(objects, case.role).count == int(case.count.partition("=")[2])
    [container] = pods_of(objects, case.role).spec["containers"]
    assert container["resources"]["limits"]["memory"] == "9Gi"
    base = pods_of(objects, "worker")
    for field in ("securityContext", "automountServiceAccountToken", "enableServiceLinks"):
        assert pods_of(objects, case.role).spec[field] == base.spec[field]
    assert container["securityContext"] == base.container["securityContext"]


def test_every_task_sees_the_same_cluster_and_its_own_place_in_it(
    case: Case, objects: tuple[Object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    values, specs = manifests.cluster_values(objects), set()
    jobs = JOBS | {case.role: case.job}
    for role, job in jobs.items():
        each = pods_of(objects, role)
        for index in {0, each.count - 1}:
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
            command_line.parse(flags, [*own, *case.told])
            if job == "chief":
                specs.add(tasks.read_placement(flags).spec)
                continue
            spec, task = tasks.read_task(flags, job)
            assert task == Task(job, index)
            specs.add(spec)
    [spec] = specs
    for role, job in jobs.items():
        if job == "chief":
            continue
        assert [each.removesuffix(":2222") for each in spec.addresses(job)] == list(
            pods_of(objects, role).dns
        )


def test_they_are_freed_too(case: Case, objects: tuple[Object, ...]) -> None:
    [role] = of_kind(objects, "Role")
    names = ["mine-worker", "mine-parameter-server", f"mine-{case.role}"]
    assert role["rules"][0]["resourceNames"] == names
    words = pods_of(objects, "coordinator").container["args"]
    said = [word for word in words if word.startswith("--free_stateful_sets")]
    variable = case.role.replace("-", "_").upper()
    assert said[-1] == f"--free_stateful_sets=$(WORKER),$(PARAMETER_SERVER),$({variable})"
    flags = parsed(*said)
    assert len(flags.free_stateful_sets) == 3, "the last one counts"


def test_workers_and_coordinator_may_reach_them_and_nobody_else(
    case: Case, objects: tuple[Object, ...]
) -> None:
    policies = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "NetworkPolicy")
    }
    own = policies[f"mine-{case.role}"]
    allowed = [
        (peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"], port["protocol"])
        for rule in own["ingress"]
        for peer in rule["from"]
        for port in rule["ports"]
    ]
    assert sorted(allowed) == [("coordinator", "TCP"), ("coordinator", "UDP"), ("worker", "TCP")]
    may = {("worker", "egress"): True, ("coordinator", "egress"): True}
    may[("worker", "ingress")] = case.from_workers
    for (name, direction), is_allowed in may.items():
        said = str(policies[f"mine-{name}"][direction])
        assert (f"'app.kubernetes.io/component': '{case.role}'" in said) == is_allowed
    assert bool(own["egress"]) == case.from_workers
    for name in ("mine-dns", "mine-metrics"):
        assert f"'{case.role}'" in str(policies[name]["podSelector"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--overlay=jobset",), "--topology={0}: not with --overlay=jobset"),
        (("--tls_image=ps-dqn-tls:1",), "--topology={0}: not with --tls_image=ps-dqn-tls:1"),
        (("--workers=4",), "--workers=4: with --topology={0}"),
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
        assert case.role.replace("-", "_").upper() not in manifests.cluster_values(found)
        assert not [each for each in found if f"'{case.role}'" in str(each)]


def test_actors_go_with_workers_that_hold_the_parameters(tmp_path: pathlib.Path) -> None:
    said = ("launch", "k8s", "--name=mine", "--image=ps-dqn:1", "--workers=2", "--num_learners=2")
    way = ("--strategy=all_reduce", "--local_updates=1", "--preset=cartpole,seed")
    assert launch.main([*said, *way, f"--output={tmp_path / 'run'}"]) == 0
    objects = manifests.kustomize(tmp_path / "run")
    words = pods_of(objects, "coordinator").container["args"]
    assert words[-1] == "--free_stateful_sets=$(WORKER),$(ACTOR)"
    [role] = of_kind(objects, "Role")
    assert {"mine-worker", "mine-actor"} <= {*role["rules"][0]["resourceNames"]}
