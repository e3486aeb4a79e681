"""The rendered manifests with TLS sidecars run CartPole here, through the loss of a worker."""

import dataclasses
import pathlib
import shutil
import socket
import ssl
import subprocess

import pytest
from support.manifests import Object, experiment_patch, render_overlay
from support.pods import cluster as pods_cluster
from support.pods import network
from support.pods.cluster import Cluster
from support.pods.network import Interface

pytestmark = pytest.mark.slow

PLAIN, TLS = 2222, 2443
SECONDS = 240.0
EXPERIMENT = """\
--env_id=CartPole-v1
--num_envs_per_worker=8
--replay_capacity=20000
--target_return=inf
--total_env_steps=1000000000
--jit_compile=none
"""
OVERLAY = """
namespace: ps-dqn
resources: [{k8s}/overlays/local]
components: [{k8s}/components/tls]
replicas:
  - {{name: worker, count: 2}}
transformers: [{k8s}/counts]
patches:
""" + experiment_patch(EXPERIMENT)
REMOVED = {("Deployment", "tensorboard"), ("Service", "tensorboard"), ("Job", "evaluator")}


@dataclasses.dataclass
class Story:
    """What was seen while the manifests ran."""

    lines: list[str] = dataclasses.field(default_factory=list)  # of the coordinator
    reached: dict[str, bool] = dataclasses.field(default_factory=dict)
    answers: dict[str, str] = dataclasses.field(default_factory=dict)
    addresses: list[str] = dataclasses.field(default_factory=list)  # of worker-1, old and new
    left: list[str] = dataclasses.field(default_factory=list)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    reason = pods_cluster.unavailable()
    if reason:
        pytest.skip(reason)
    for program in ("stunnel", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    ours, theirs, others = (
        _certificate(folder / "ours", "ps-dqn"),
        _certificate(folder / "theirs", "ps-dqn"),  # of an authority of their own
        _certificate(folder / "ours", "somebody"),
    )
    secret = {name: (ours / name).read_text() for name in ("tls.crt", "tls.key", "ca.crt")}
    objects: list[Object] = [
        {"kind": "Secret", "metadata": {"name": "ps-dqn-tls"}, "stringData": secret},
        *(
            each
            for each in render_overlay(OVERLAY)
            if (each["kind"], each["metadata"]["name"]) not in REMOVED
        ),
    ]
    seen = Story()
    with Cluster(objects, tmp_path_factory.mktemp("cluster")) as cluster:
        coordinator = cluster.jobs["coordinator"]

        def workers_contribute() -> bool:
            pod = cluster.pod("coordinator")
            page = cluster.get(pod, 8080, "/metrics")[1] if pod and pod.is_ready else ""
            return "ps_dqn_workers_reporting 2.0" in page

        cluster.until(workers_contribute, SECONDS, "both workers to work")
        source, worker = (cluster.pod(name) for name in ("coordinator", "worker-1"))
        assert source
        assert worker
        for port in (PLAIN, TLS):
            seen.reached[f"coordinator > worker-1:{port}"] = network.connects(
                source.interface, worker.interface, port, 0.5
            )
        for name, shown in {"ours": ours, "theirs": theirs, "others": others, "none": None}.items():
            seen.answers[name] = _speak(source.interface, worker.address, ours / "ca.crt", shown)
        worker.delete()
        cluster.until(lambda: worker.gone, SECONDS, "the worker to be gone")

        def is_back() -> bool:
            again = cluster.pod("worker-1")
            return again is not None and again.is_ready and workers_contribute()

        cluster.until(is_back, SECONDS, "another worker that works")
        again = cluster.pod("worker-1")
        assert again
        assert not coordinator.failures
        seen.addresses = [worker.address, again.address]
        seen.lines = source.log.read_text().splitlines()
    seen.left = pods_cluster.left_here()
    return seen


def _certificate(folder: pathlib.Path, name: str) -> pathlib.Path:
    """A folder with a certificate of that name, of the authority in the folder given."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    if not folder.exists():
        folder.mkdir()
        files = ("-keyout", folder / "ca.key", "-out", folder / "ca.crt")
        _openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=authority", *files)
    made = folder / name
    made.mkdir()
    shutil.copy(folder / "ca.crt", made)
    authority = ("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key")
    files = ("-keyout", made / "tls.key", "-out", made / "tls.crt")
    other_name = ("-addext", f"subjectAltName=DNS:{name}")
    _openssl("req", "-x509", *authority, *key, "-subj", f"/CN={name}", *other_name, *files)
    return made


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def _speak(
    source: Interface, address: str, authority: pathlib.Path, shown: pathlib.Path | None
) -> str:
    """What a task answers to the beginning of a gRPC connection that shows a certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    if shown is not None:
        context.load_cert_chain(shown / "tls.crt", shown / "tls.key")

    def speak() -> str:
        try:
            with (
                socket.create_connection((address, TLS), 10.0) as plain,
                context.wrap_socket(plain, server_hostname="ps-dqn") as secured,
            ):
                secured.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5))
                return "answered" if secured.recv(9) else "closed"
        except OSError as error:  # ssl.SSLError is one
            return type(error).__name__

    return network.inside(source, speak)


def test_the_run_goes_on_through_the_sidecars_and_with_another_worker(story: Story) -> None:
    old, new = story.addresses
    assert old != new
    assert not [line for line in story.lines if line.startswith("error")], story.lines


def test_pods_reach_the_sidecar_of_a_task_and_not_the_task(story: Story) -> None:
    assert story.reached == {
        "coordinator > worker-1:2222": False,
        "coordinator > worker-1:2443": True,
    }


def test_nobody_is_answered_without_a_certificate_of_this_cluster(story: Story) -> None:
    assert story.answers.pop("ours") == "answered"
    assert "answered" not in story.answers.values(), story.answers
    assert set(story.answers) == {"theirs", "others", "none"}


def test_nothing_is_left_of_the_cluster(story: Story) -> None:
    assert story.left == []
