"""Sets are scaled to zero through the Kubernetes API, played here by a server of HTTPS."""

import http.server
import json
import pathlib
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ps_dqn.cluster import stateful_sets

Answer = tuple[int, str]
DONE: Answer = (200, '{"kind": "Scale"}')
STATUS = '{"kind": "Status", "message": "statefulsets.apps \\"worker\\" is\\n forbidden"}'


class Api:
    """What the server was asked, and what it answers, the last one for good."""

    def __init__(self, folder: pathlib.Path):
        self.requests: list[dict[str, Any]] = []
        self.answers: list[Answer] = [DONE]
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PATCH(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {"token": self.headers["Authorization"]}
                headers["type"] = self.headers["Content-Type"]
                api.requests.append({"path": self.path, "body": json.loads(body), **headers})
                code, text = api.answers.pop(0) if len(api.answers) > 1 else api.answers[0]
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "ca.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]


def certificate(folder: pathlib.Path) -> None:
    """A certificate of 127.0.0.1, its own authority, as the API server of a cluster has it."""
    folder.mkdir()
    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -x509 -days 2 -subj /CN=kubernetes"
    files = ["-keyout", folder / "ca.key", "-out", folder / "ca.crt"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", *key.split(), *names, *files], check=True, capture_output=True
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    certificate(folder / "ours")
    certificate(folder / "theirs")
    return folder


@pytest.fixture
def api(
    certificates: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Api]:
    """The API of a cluster, and this process as in a pod with a service account."""
    shutil.copy(certificates / "ours" / "ca.crt", tmp_path)
    (tmp_path / "token").write_text("secret-token")
    (tmp_path / "namespace").write_text("lab")
    api = Api(certificates / "ours")
    monkeypatch.setattr(stateful_sets, "ACCOUNT", tmp_path)
    monkeypatch.setattr(stateful_sets, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
    thread = threading.Thread(target=api.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield api
    api.server.shutdown()
    thread.join()
    api.server.server_close()


def scaled(*names: str) -> list[str]:
    """What is said of it."""
    lines: list[str] = []
    stateful_sets.scale_to_zero(names, lines.append)
    return lines


def test_every_set_is_patched_as_the_pods_service_account(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")  # leads nowhere, and is not asked
    assert scaled("pong-worker", "pong-parameter-server") == [
        "pong-worker is scaled to zero: its pods free their nodes",
        "pong-parameter-server is scaled to zero: its pods free their nodes",
    ]
    assert api.requests == [
        {
            "path": f"/apis/apps/v1/namespaces/lab/statefulsets/{name}/scale",
            "body": {"spec": {"replicas": 0}},
            "token": "Bearer secret-token",
            "type": "application/merge-patch+json",
        }
        for name in ("pong-worker", "pong-parameter-server")
    ]


def test_a_refusal_is_told_once_and_does_not_keep_the_others(api: Api) -> None:
    api.answers = [(403, STATUS), DONE]
    first, second = scaled("worker", "parameter-server")
    assert first == (
        'worker keeps its pods: the Kubernetes API says 403, statefulsets.apps "worker" is '
        "forbidden; kubectl scale statefulset/worker --replicas=0 frees their nodes"
    )
    assert second.startswith("parameter-server is scaled to zero")
    assert len(api.requests) == 2


@pytest.mark.parametrize("code", [500, 503, 429])
def test_a_server_that_is_not_well_is_asked_again(code: int, api: Api) -> None:
    api.answers = [(code, "no JSON"), (code, "[]"), DONE]
    assert scaled("worker") == ["worker is scaled to zero: its pods free their nodes"]
    assert len(api.requests) == 3


def test_it_is_not_asked_for_ever(api: Api) -> None:
    api.answers = [(500, "no JSON")]
    [line] = scaled("worker")
    assert "the Kubernetes API says 500, Internal Server Error" in line
    assert len(api.requests) == stateful_sets.ATTEMPTS


def has_another_authority(folder: pathlib.Path, certificates: pathlib.Path) -> None:
    shutil.copy(certificates / "theirs" / "ca.crt", folder)


def has_no_token(folder: pathlib.Path, certificates: pathlib.Path) -> None:
    (folder / "token").unlink()


def has_no_authority(folder: pathlib.Path, certificates: pathlib.Path) -> None:
    (folder / "ca.crt").write_text("")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (has_another_authority, "CERTIFICATE_VERIFY_FAILED"),
        (has_no_token, "this pod has no service account's token"),
        (has_no_authority, "this pod has no service account's token"),
    ],
)
def test_nobody_is_told_the_token_who_is_not_the_clusters_own(
    change: Callable[[pathlib.Path, pathlib.Path], None],
    says: str,
    api: Api,
    certificates: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    change(tmp_path, certificates)
    [line] = scaled("worker")
    assert line.startswith("worker keeps its pods: ")
    assert says in line
    assert api.requests == []


def test_a_server_that_is_gone_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    [line] = scaled("worker")
    assert "the Kubernetes API does not answer ([Errno 111] Connection refused)" in line


def test_outside_of_kubernetes_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    [line] = scaled("worker")
    assert "this is no pod of Kubernetes" in line


def test_of_no_set_nothing_is_said() -> None:
    assert scaled() == []
