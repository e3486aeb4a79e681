"""The Kubernetes manifests: what pods may do, how they are probed, and how they end.

Neither the kubelet nor the controllers that act on it are tested.
"""

import pytest
from support import manifests
from support.manifests import (
    EVERYTHING,
    TFJOB_CONTAINER,
    Object,
    of_kind,
    pods,
    pods_of,
    render,
)

from ps_dqn.cluster import health
from ps_dqn.run import signals

everything = pytest.mark.parametrize("name", EVERYTHING)
COORDINATOR, SERVER, WORKER = "coordinator", "parameter-server", "worker"
GRPC, HEALTH = 2222, 8080
_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
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
        for container in each.containers:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }
            assert not any("hostPort" in port for port in container["ports"])
        assert not {"hostNetwork", "hostPID", "hostIPC"} & each.spec.keys()


@everything
def test_pods_have_nothing_of_kubernetes_but_what_they_use(name: str) -> None:
    for each in pods(render(name)):
        talks = "free" in name and each.role == COORDINATOR
        assert each.spec["automountServiceAccountToken"] is talks
        assert ("serviceAccountName" in each.spec) == talks
        assert each.spec["enableServiceLinks"] is False
        for volume in each.spec["volumes"]:
            assert volume.keys() - {"name"} <= _VOLUMES
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
