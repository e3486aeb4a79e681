"""The Kubernetes manifests: what pods may do, who may reach them, and how they end.

NetworkPolicy is evaluated here over labels, as its reference has it; whether a cluster's network
plugin enforces it is not tested, nor are the kubelet and the controllers that act on the rest.
"""

import dataclasses
import itertools
from typing import Any

import pytest
from support import manifests
from support.manifests import (
    EVERYTHING,
    TFJOB_CONTAINER,
    Object,
    Pods,
    of_kind,
    pods,
    pods_of,
    render,
)

from cluster import health
from ps_dqn.run import signals

everything = pytest.mark.parametrize("name", EVERYTHING)
COORDINATOR, SERVER, WORKER = "coordinator", "parameter-server", "worker"
GRPC, HEALTH, DNS = 2222, 8080, 53
KILLED, TERMINATED = 137, 143


# The restricted Pod Security Standard.


@everything
def test_pods_keep_to_the_restricted_standard(name: str) -> None:
    for each in pods(render(name)):
        assert each.spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert each.container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & each.spec.keys()
        assert not any("hostPort" in port for port in each.container["ports"])


@everything
def test_pods_have_nothing_of_kubernetes_but_what_they_use(name: str) -> None:
    for each in pods(render(name)):
        assert each.spec["automountServiceAccountToken"] is False
        assert each.spec["enableServiceLinks"] is False
        for volume in each.spec["volumes"]:
            assert volume.keys() - {"name"} <= {"configMap", "emptyDir", "persistentVolumeClaim"}
            assert "sizeLimit" in volume.get("emptyDir", {"sizeLimit": ""})


@everything
def test_an_overlay_with_a_namespace_has_the_standard_enforced(name: str) -> None:
    for each in of_kind(render(name), "Namespace"):
        assert each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
        namespaces = {other["metadata"].get("namespace") for other in render(name)}
        assert namespaces == {None, each["metadata"]["name"]}  # itself is in none


@everything
def test_every_container_says_what_it_needs_and_may_take(name: str) -> None:
    for each in pods(render(name)):
        resources = each.container["resources"]
        assert {"cpu", "memory"} == resources["requests"].keys()
        assert {"cpu", "memory"} <= resources["limits"].keys()
        if each.role in (COORDINATOR, SERVER, WORKER):
            assert each.flags["intra_op_threads"] == "$(CPU_LIMIT)"


def test_the_run_directory_is_written_by_those_who_write_it() -> None:
    mounts = {
        each.role: mount.get("readOnly", False)
        for each in pods(render("base"))
        for mount in each.container["volumeMounts"]
        if mount["name"] == "runs"
    }
    assert mounts == {"coordinator": False, "evaluator": False, "tensorboard": True}


# Probes.


@everything
def test_probes_ask_what_the_program_answers(name: str) -> None:
    for each in pods(render(name)):
        ports = {port["name"]: port["containerPort"] for port in each.container["ports"]}
        probes = {kind: each.container.get(f"{kind}Probe") for kind in _PROBES}
        assert probes["startup"]
        assert probes["liveness"]
        for kind, probe in probes.items():
            if probe is None:  # a TFJob's Services publish a pod only when it is ready
                assert (kind, each.owner["kind"]) == ("readiness", "TFJob")
            elif each.role == "tensorboard":
                assert probe["httpGet"] == {"path": "/", "port": "http"}
            else:
                assert probe["httpGet"] == {"path": _PROBES[kind], "port": "health"}
                assert ports["health"] == int(each.flags["health_port"]) == HEALTH


@everything
def test_a_probe_waits_for_the_answer_and_for_a_slow_start(name: str) -> None:
    for each in pods(render(name)):
        if each.role == "tensorboard":
            continue
        startup, liveness = each.container["startupProbe"], each.container["livenessProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 120
        assert liveness["timeoutSeconds"] > health.CHECK_SECONDS
        assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 30


_PROBES = {"startup": health.LIVEZ, "liveness": health.LIVEZ, "readiness": health.READYZ}


# How pods end.


def _verdict(job: Object, exit_code: int, is_disrupted: bool = False) -> str:
    """What a Job makes of a failed pod: the action of the first rule that fits, else `Count`."""
    for rule in job["podFailurePolicy"]["rules"]:
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions", [])
        if codes is not None and codes["operator"] == "In" and exit_code in codes["values"]:
            return rule["action"]
        wanted = {"type": "DisruptionTarget", "status": "True"}
        if is_disrupted and wanted in conditions:
            return rule["action"]
    return "Count"


def _coordinator_job(name: str) -> Object:
    owner = pods_of(render(name), COORDINATOR).owner
    if owner["kind"] == "Job":
        return owner["spec"]
    [job] = [job for job in owner["spec"]["replicatedJobs"] if job["name"] == COORDINATOR]
    return job["template"]["spec"]


@pytest.mark.parametrize("name", [each for each in EVERYTHING if "tfjob" not in each])
def test_the_coordinator_is_started_again_where_that_helps(name: str) -> None:
    job = _coordinator_job(name)
    assert _verdict(job, signals.WRONG_USAGE) == "FailJob"
    assert _verdict(job, signals.START_AGAIN) == "Ignore"
    assert _verdict(job, TERMINATED) == "Ignore"
    assert _verdict(job, signals.FAILED) == "Count"
    assert _verdict(job, KILLED) == "Count"  # by the kernel for its memory, say
    assert _verdict(job, KILLED, is_disrupted=True) == "Ignore"
    assert job["backoffLimit"] > 0


@pytest.mark.parametrize("name", [each for each in EVERYTHING if "tfjob" not in each])
def test_kubernetes_takes_the_policy_and_never_runs_two_coordinators(name: str) -> None:
    # What the API's validation wants beyond the schema: sorted codes, and this restart policy.
    job = _coordinator_job(name)
    assert job["podReplacementPolicy"] == "Failed"
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    for rule in job["podFailurePolicy"]["rules"]:
        values = rule.get("onExitCodes", {"values": []})["values"]
        assert values == sorted(set(values))
        assert 0 not in values


@everything
def test_parameter_servers_outlive_the_coordinators_save(name: str) -> None:
    coordinator, server = pods_of(render(name), COORDINATOR), pods_of(render(name), SERVER)
    sleep = server.container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert coordinator.spec["terminationGracePeriodSeconds"] >= 60
    assert sleep > coordinator.spec["terminationGracePeriodSeconds"]
    assert server.spec["terminationGracePeriodSeconds"] >= sleep + 5  # then SIGTERM, and it leaves


@everything
def test_disruption_budgets_are_for_pods_whose_number_kubernetes_knows(name: str) -> None:
    # A share or a maxUnavailable needs an owner with a scale, which a Job is not.
    budgets = of_kind(render(name), "PodDisruptionBudget")
    covered = {}
    for budget in budgets:
        selector = budget["spec"]["selector"]
        [each] = [p for p in pods(render(name)) if manifests.matches(selector, p.labels)]
        assert each.owner["kind"] == "StatefulSet"
        covered[each.role] = budget["spec"]["maxUnavailable"]
    is_custom = bool(of_kind(render(name), "JobSet", "TFJob"))
    assert covered == ({} if is_custom else {WORKER: "50%", SERVER: 1})


@pytest.mark.parametrize("name", [each for each in EVERYTHING if "jobset" in each])
def test_a_jobset_ends_as_its_coordinator_does(name: str) -> None:
    [jobset] = of_kind(render(name), "JobSet")
    spec = jobset["spec"]
    assert jobset["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": [COORDINATOR]}
    assert spec["failurePolicy"] == {"maxRestarts": 0}
    assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    for job in spec["replicatedJobs"]:
        of_job = job["template"]["spec"]
        assert job["replicas"] == 1
        assert of_job["completionMode"] == "Indexed"  # or no index and no name of its own
        assert of_job["completions"] == of_job["parallelism"]
        if job["name"] != COORDINATOR:  # they may die as often as they do
            assert of_job["backoffLimit"] == 2**31 - 1
            assert of_job["template"]["spec"]["restartPolicy"] == "OnFailure"


@pytest.mark.parametrize("name", [each for each in EVERYTHING if "tfjob" in each])
def test_a_tfjob_is_as_the_training_operator_wants_it(name: str) -> None:
    [tfjob] = of_kind(render(name), "TFJob")
    assert tfjob["apiVersion"] == "kubeflow.org/v1"
    assert tfjob["spec"]["runPolicy"] == {"cleanPodPolicy": "Running"}
    replicas = tfjob["spec"]["tfReplicaSpecs"]
    assert {kind: each["restartPolicy"] for kind, each in replicas.items()} == {
        "Chief": "OnFailure",  # 0 is the end of the run
        "PS": "Always",
        "Worker": "Always",
    }
    assert replicas["Chief"]["replicas"] == 1
    for each in replicas.values():
        spec = each["template"]["spec"]
        assert "restartPolicy" not in spec  # the operator would put its own in its place
        assert [container["name"] for container in spec["containers"]] == [TFJOB_CONTAINER]
        ports = {port["name"]: port["containerPort"] for port in spec["containers"][0]["ports"]}
        assert ports == {"tfjob-port": GRPC, "health": HEALTH}
        assert not {"hostname", "subdomain"} & spec.keys()


# The network.


@dataclasses.dataclass(frozen=True)
class Place:
    """Where packets come from or go to: a pod, or an address outside the cluster."""

    name: str
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    address: str = ""


@dataclasses.dataclass(frozen=True)
class Policies:
    """The NetworkPolicies of one namespace."""

    objects: list[Object]
    namespace: str

    def allow(self, source: Place, target: Place, port: int, protocol: str = "TCP") -> bool:
        """Whether packets pass, out of the one and into the other."""
        return self._passes("Egress", "to", source, target, port, protocol) and self._passes(
            "Ingress", "from", target, source, port, protocol
        )

    def _passes(
        self, direction: str, peers: str, own: Place, peer: Place, port: int, protocol: str
    ) -> bool:
        applying = [
            each["spec"]
            for each in self.objects
            if direction in each["spec"]["policyTypes"]
            and own.namespace == self.namespace
            and manifests.matches(each["spec"]["podSelector"], dict(own.labels))
        ]
        rules = [rule for spec in applying for rule in spec.get(direction.lower(), [])]
        return not applying or any(
            {"port": port, "protocol": protocol} in rule["ports"]
            and any(self._is(selector, peer) for selector in rule[peers])
            for rule in rules
        )

    def _is(self, selector: Object, peer: Place) -> bool:
        if "ipBlock" in selector:
            return selector["ipBlock"] == {"cidr": f"{peer.address}/32"}
        if peer.address:
            return False
        names = {"kubernetes.io/metadata.name": peer.namespace}
        in_namespace = (
            manifests.matches(selector["namespaceSelector"], names)
            if "namespaceSelector" in selector
            else peer.namespace == self.namespace
        )
        return in_namespace and manifests.matches(
            selector.get("podSelector", {}), dict(peer.labels)
        )


def _place(each: Pods, namespace: str, **more: str) -> Place:
    return Place(each.role, namespace, tuple({**each.labels, **more}.items()))


def _network(name: str) -> tuple[Policies, list[Place]]:
    """The policies, and everybody there is: the roles first."""
    objects = render(name)
    roles = pods(objects)
    namespace = roles[0].owner["metadata"].get("namespace", "default")
    others = [
        Place("stranger", namespace, (("app", "other"),)),
        Place("dns", "kube-system", (("k8s-app", "kube-dns"),)),
        Place("kube-system", "kube-system", (("k8s-app", "other"),)),
        Place("prometheus", "monitoring", (("app", "prometheus"),)),
        Place("node-dns", address="169.254.20.10"),
        Place("internet", address="203.0.113.7"),
    ]
    others += [_place(each, "elsewhere") for each in roles]  # another cluster of the same kind
    others = [dataclasses.replace(each, name=f"{each.name} of others") for each in others]
    policies = Policies(of_kind(objects, "NetworkPolicy"), namespace)
    return policies, [*(_place(each, namespace) for each in roles), *others]


def _flows(policies: Policies, places: list[Place]) -> set[tuple[str, str, int, str]]:
    """What passes, of all that has one of our pods at an end."""
    ports = list(itertools.product((GRPC, HEALTH, 6006, DNS, 443), ("TCP", "UDP")))
    ours = {each for each in places if not each.name.endswith("of others")}
    return {
        (source.name, target.name, *port)
        for source, target in itertools.permutations(places, 2)
        if {source, target} & ours
        for port in ports
        if policies.allow(source, target, *port)
    }


def _wanted() -> set[tuple[str, str, int, str]]:
    pairs = [(COORDINATOR, WORKER), (COORDINATOR, SERVER), (WORKER, SERVER), (SERVER, WORKER)]
    calls = {(source, target, GRPC, "TCP") for source, target in pairs}
    looks_up = {
        (role, dns, DNS, protocol)
        for role in (COORDINATOR, SERVER, WORKER)
        for dns in ("dns of others", "node-dns of others")
        for protocol in ("TCP", "UDP")
    }
    scraped = {
        ("prometheus of others", role, HEALTH, "TCP")
        for role in (COORDINATOR, SERVER, WORKER, "evaluator")
    }
    return calls | looks_up | scraped


@everything
def test_the_network_lets_through_what_is_needed_and_nothing_else(name: str) -> None:
    assert _flows(*_network(name)) == _wanted()


@everything
def test_pods_of_one_role_do_not_reach_each_other(name: str) -> None:
    policies, places = _network(name)
    for each in places:
        other = dataclasses.replace(each, name="another of the role")
        if not each.name.endswith("of others"):
            assert _flows(policies, [each, other]) == set()


def test_a_second_cluster_in_the_namespace_is_kept_out() -> None:
    policies, places = _network("own base")
    instance = {"app.kubernetes.io/instance": "yours"}
    roles = pods(render("own base"))
    yours = [_place(each, policies.namespace, **instance) for each in roles]
    yours = [dataclasses.replace(each, name=f"your {each.name} of others") for each in yours]
    assert _flows(policies, [*places, *yours]) == _wanted()


def test_without_a_policy_everything_passes() -> None:
    _, places = _network("base")
    nothing: Any = Policies([], "default")
    assert ("stranger of others", WORKER, GRPC, "TCP") in _flows(nothing, places)
