"""The part of the Kubernetes API that scales StatefulSets, for service accounts that may."""

import http.server
import json
import pathlib
import re
import ssl
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from support.manifests import of_kind
from support.pods import network
from support.pods.network import Interface

Object = dict[str, Any]
PORT = 6443
_SCALE = re.compile(r"/apis/apps/v1/namespaces/([^/]+)/statefulsets/([^/]+)/scale")


class Api:
    """Serves from an interface of its own until it is closed."""

    def __init__(
        self,
        objects: Sequence[Object],
        interface: Interface,
        folder: pathlib.Path,
        scale: Callable[[str, int], None],
    ):
        """Serves.

        Args:
            objects: all manifests, which say who may do what.
            interface: its place in the network.
            folder: for its certificate and the tokens.
            scale: gives a StatefulSet another number of pods.
        """
        self._objects, self._folder, self._scale = objects, folder, scale
        self.interface = interface
        self.requests: list[tuple[str, int]] = []  # StatefulSets, and what was answered
        folder.mkdir()
        self._certify()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(api.patch(self.path, self.headers["Authorization"], body))
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        address = (interface.address, PORT)
        self._server = network.inside(
            interface, lambda: http.server.ThreadingHTTPServer(address, Handler)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "ca.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="api")
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What every container is told of it."""
        return {
            "KUBERNETES_SERVICE_HOST": self.interface.address,
            "KUBERNETES_SERVICE_PORT": str(PORT),
        }

    def account(self, name: str) -> pathlib.Path:
        """The folder that a pod with this service account sees."""
        [account] = [
            each
            for each in of_kind(self._objects, "ServiceAccount")
            if each["metadata"]["name"] == name
        ]
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(_token(name))
        (folder / "namespace").write_text(account["metadata"]["namespace"])
        (folder / "ca.crt").write_bytes((self._folder / "ca.crt").read_bytes())
        return folder

    def patch(self, path: str, authorization: str, body: Object) -> int:
        """Does what is asked, where that may be; the HTTP status."""
        match = _SCALE.fullmatch(path)
        if match is None or body.keys() != {"spec"} or body["spec"].keys() != {"replicas"}:
            return 404
        name, code = match[2], 403
        if any(self._may(rule, name) for rule in self._rules(match[1], authorization)):
            self._scale(name, body["spec"]["replicas"])
            code = 200
        self.requests.append((name, code))
        return code

    def _rules(self, namespace: str, authorization: str) -> list[Object]:
        """Those of whoever shows this token."""
        roles = {each["metadata"]["name"]: each for each in of_kind(self._objects, "Role")}
        rules = []
        for binding in of_kind(self._objects, "RoleBinding"):
            for subject in binding["subjects"]:
                is_shown = authorization == f"Bearer {_token(subject['name'])}"
                if is_shown and binding["metadata"]["namespace"] == namespace:
                    rules += roles[binding["roleRef"]["name"]]["rules"]
        return rules

    def _may(self, rule: Object, name: str) -> bool:
        wanted = {"apiGroups": "apps", "resources": "statefulsets/scale", "verbs": "patch"}
        is_allowed = all(value in rule[key] for key, value in wanted.items())
        return is_allowed and name in rule["resourceNames"]

    def _certify(self) -> None:
        key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -x509 -days 2 -subj /CN=api"
        names = ["-addext", f"subjectAltName=IP:{self.interface.address}"]
        files = ["-keyout", self._folder / "ca.key", "-out", self._folder / "ca.crt"]
        command = ["openssl", "req", *key.split(), *names, *files]
        subprocess.run(command, check=True, capture_output=True)


def _token(account: str) -> str:
    return f"token-of-{account}"
