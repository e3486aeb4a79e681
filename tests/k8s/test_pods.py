"""The runner does with small manifests what Kubernetes does; its programs are Python's own."""

import pathlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.pods import cluster as pods_cluster
from support.pods import network
from support.pods.cluster import Cluster
from support.pods.fields import UnknownFieldError
from support.pods.pod import Pod

pytestmark = pytest.mark.slow

Object = dict[str, Any]
Make = Callable[..., Cluster]
PORT = 8000
SECONDS = 120.0
SERVE = ["http.server", str(PORT)]


def container(*arguments: str, **more: object) -> Object:
    return {
        "name": "it",
        "image": "any",
        "args": [*arguments],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **more,
    }


def template(labels: dict[str, str], held: Object, **more: object) -> Object:
    security = {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    spec = {"containers": [held], "securityContext": security, "terminationGracePeriodSeconds": 1}
    return {"metadata": {"labels": labels}, "spec": {**spec, **more}}


def stateful_set(name: str, replicas: int, pod: Object) -> Object:
    spec = {"replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel"}
    return {
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {**spec, "template": pod},
    }


def service(name: str) -> Object:
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"is": name}}
    return {"kind": "Service", "metadata": {"name": name}, "spec": spec}


def job(*arguments: str, rules: list[Object] | None = None) -> Object:
    pod = template({"is": "job"}, container(*arguments), restartPolicy="Never")
    spec: Object = {"podReplacementPolicy": "Failed", "backoffLimit": 1, "template": pod}
    if rules:
        spec["podFailurePolicy"] = {"rules": rules}
    return {"kind": "Job", "metadata": {"name": "job"}, "spec": spec}


def exits(code: int) -> list[str]:
    return ["timeit", "--number=1", f"import os; os._exit({code})"]


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Iterator[Make]:
    """Runs manifests; afterwards nothing is left."""
    reason = pods_cluster.unavailable()
    if reason:
        pytest.skip(reason)
    made: list[Cluster] = []

    def make(*objects: Object) -> Cluster:
        made.append(Cluster(objects, tmp_path))
        return made[-1]

    yield make
    for each in made:
        with each:
            pass
    assert pods_cluster.left_here() == []


def ready(cluster: Cluster, name: str, before: Pod | None = None) -> Pod:
    """The pod of a name once it is ready, and another one than before."""

    def found() -> Pod | None:
        pod = cluster.pod(name)
        return pod if pod is not None and pod is not before and pod.is_ready else None

    pod = cluster.until(found, SECONDS, f"{name} to be ready")
    assert pod is not None
    return pod


PROBE = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 0.1}
ABSENT = {"httpGet": {"path": "/absent", "port": "http"}, "periodSeconds": 0.1}


def server(name: str, replicas: int = 1, **more: object) -> Object:
    held = container(*SERVE, readinessProbe=PROBE, **more)
    return stateful_set(name, replicas, template({"is": name}, held))


def test_replaced_pod_has_the_name_and_another_address(run: Make) -> None:
    cluster = run(server("web", 2), service("web"))
    old = ready(cluster, "web-1")
    old.delete()
    new = ready(cluster, "web-1", before=old)
    assert old.gone
    assert old.exit_codes == [128 + signal.SIGKILL]  # 1 ignores a SIGTERM it does not handle
    assert new.address != old.address
    hosts = (cluster.settings.folder / "hosts").read_text()
    assert f"{new.address} web-1.web\n" in hosts
    assert old.address not in hosts.split()


def test_pods_are_numbered_from_where_their_set_says(run: Make) -> None:
    manifest = server("web", 2)
    manifest["spec"]["ordinals"] = {"start": 3}
    cluster = run(manifest)
    ready(cluster, "web-4")
    labels = {pod.name: pod.labels["apps.kubernetes.io/pod-index"] for pod in cluster.pods()}
    assert labels == {"web-3": "3", "web-4": "4"}


def test_failed_liveness_restarts_the_container_in_its_pod(run: Make) -> None:
    startup = {**PROBE, "failureThreshold": 10 * SECONDS}
    liveness = {**ABSENT, "failureThreshold": 2, "terminationGracePeriodSeconds": 0}
    cluster = run(server("web", startupProbe=startup, livenessProbe=liveness))
    pod = cluster.until(lambda: cluster.pod("web-0"), SECONDS, "the pod")
    first = cluster.until(lambda: pod.pid, SECONDS, "the container")
    cluster.until(lambda: pod.exit_codes, SECONDS, "the liveness probe to fail")
    second = cluster.until(lambda: pod.pid, SECONDS, "the container to start again")
    assert second != first
    assert cluster.pod("web-0") is pod


def test_other_probes_wait_for_the_startup_probe(run: Make) -> None:
    cluster = run(server("web", startupProbe={**ABSENT, "failureThreshold": 3}))
    pod = cluster.until(lambda: cluster.pod("web-0"), SECONDS, "the pod")
    was_ready: list[bool] = []

    def has_ended() -> bool:
        was_ready.append(pod.is_ready)
        return bool(pod.exit_codes)

    cluster.until(has_ended, SECONDS, "the startup probe to fail")
    assert not any(was_ready)


def test_sigterm_comes_after_pre_stop_and_before_the_grace_period_ends(run: Make) -> None:
    handle = "import os, signal; signal.signal(15, lambda *_: os._exit(143)); print('up')"
    program = ["timeit", "--number=1", f"--setup={handle}", "import time; time.sleep(1000)"]
    held = container(*program, lifecycle={"preStop": {"sleep": {"seconds": 1}}})
    pod_template = template({"is": "it"}, held, terminationGracePeriodSeconds=SECONDS)
    cluster = run(stateful_set("it", 1, pod_template))
    pod = cluster.until(lambda: cluster.pod("it-0"), SECONDS, "the pod")
    cluster.until(lambda: pod.log.exists() and "up" in pod.log.read_text(), SECONDS, "a handler")
    deleted = time.monotonic()
    pod.delete()
    cluster.until(lambda: pod.gone, SECONDS / 2, "the pod to be gone")
    assert pod.exit_codes == [143]
    assert time.monotonic() - deleted >= 1


def test_container_sees_its_own_processes_limit_and_volumes_and_cannot_write_elsewhere(
    run: Make,
) -> None:
    held = container(
        *SERVE,
        "--directory=/",
        readinessProbe=PROBE,
        volumeMounts=[{"name": "config", "mountPath": "/etc/app", "readOnly": True}],
    )
    volumes = [{"name": "config", "configMap": {"name": "config"}}]
    config = {"kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"key": "value\n"}}
    pod_template = template({"is": "web"}, held, volumes=volumes)
    cluster = run(config, stateful_set("web", 1, pod_template))
    pod = ready(cluster, "web-0")

    def page(path: str) -> str:
        return cluster.get(pod, PORT, path)[1]

    assert page("/etc/app/key") == "value\n"
    status = (pathlib.Path("/proc") / str(pod.pid) / "status").read_text()
    assert "Uid:\t10001\t10001\t10001\t10001\n" in status
    assert "CapBnd:\t0000000000000000\n" in status
    assert "NoNewPrivs:\t1\n" in status
    mounts = (pathlib.Path("/proc") / str(pod.pid) / "mounts").read_text().splitlines()
    options = {line.split()[1]: line.split()[3].split(",") for line in mounts}
    assert "ro" in options["/"]
    assert "ro" in options["/etc/app"]
    writable = {place for place, given in options.items() if "rw" in given}
    assert {place for place in writable if not place.startswith("/dev")} == {"/proc"}


@pytest.mark.parametrize(
    ("arguments", "rules", "state", "failures"),
    [
        (exits(0), [], "Complete", []),
        (exits(2), [("FailJob", [2])], "Failed", [2]),
        (exits(1), [("Ignore", [75])], "Active", [1]),
    ],
    ids=["success", "FailJob", "counted"],
)
def test_job_ends_as_its_failure_policy_says(
    run: Make, arguments: list[str], rules: list, state: str, failures: list[int]
) -> None:
    policy = [
        {"action": action, "onExitCodes": {"operator": "In", "values": values}}
        for action, values in rules
    ]
    cluster = run(job(*arguments, rules=policy))
    held = cluster.jobs["job"]
    cluster.until(lambda: held.failures or held.state != "Active", SECONDS, "a verdict")
    assert (held.state, held.failures) == (state, failures)


def test_policy_lets_only_those_it_names_through(run: Make) -> None:
    policy = {
        "kind": "NetworkPolicy",
        "metadata": {"name": "web"},
        "spec": {
            "podSelector": {"matchLabels": {"is": "web"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"podSelector": {"matchLabels": {"is": "friend"}}}],
                    "ports": [{"port": PORT}],
                }
            ],
        },
    }
    cluster = run(policy, server("web"))
    web = ready(cluster, "web-0").interface  # probed, policy or not
    friend = cluster.outsider("friend", {"is": "friend"}).interface
    stranger = cluster.outsider("stranger", {"is": "stranger"}).interface
    assert network.connects(friend, web, PORT, 2.0)
    assert not network.connects(stranger, web, PORT, 0.5)
    counts = cluster.connections()
    assert counts["friend", "web-0", "allowed"] == 1
    assert counts["stranger", "web-0", "refused"] > 0


def test_what_the_runner_does_not_do_is_refused(run: Make) -> None:
    manifest = server("web")
    manifest["spec"]["template"]["spec"]["hostNetwork"] = True
    cluster = run(manifest)
    with pytest.raises(UnknownFieldError, match="hostNetwork"):
        cluster.until(lambda: cluster.pod("web-0"), SECONDS, "the pod")
