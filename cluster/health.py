"""Whether a task is well and what it measures, over HTTP, for whatever runs it.

Local tasks are forked after this module is imported, so TensorFlow and gRPC are not imported here,
and nothing runs before `start`.
"""

import concurrent.futures
import http.server
import socketserver
import sys
import threading
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

GET_STATUS = "/tensorflow.WorkerService/GetStatus"  # what every TensorFlow server answers
LIVEZ, READYZ, METRICS = "/livez", "/readyz", "/metrics"

# How long the task's own server may take to answer, and how long a check may take in all (seconds).
SERVER_SECONDS, CHECK_SECONDS = 2.0, 3.0
# How long it may take to connect to a task.
CONNECT_MILLISECONDS = 4000
# A client that is silent for this long is hung up on (seconds).
SILENCE_SECONDS = 5.0


class HealthError(ValueError):
    """Health cannot be served as asked for; the text is one line for a person."""


def channel_to(address: str) -> Any:
    """A gRPC channel to a task.

    Args:
        address: host:port.
    """
    import grpc

    # A proxy for the world outside knows nothing of a cluster's tasks. Connections are not shared
    # with earlier channels, which wait before they try again. One to a process that is stopped,
    # whose kernel accepts it, would stay for 20 s after its channel, where there are two a second.
    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.min_reconnect_backoff_ms", CONNECT_MILLISECONDS),
    ]
    return grpc.insecure_channel(address, options=options)


def answers(address: str, timeout: float) -> bool:
    """Whether a TensorFlow server answers at an address.

    Args:
        address: host:port.
        timeout: how long it may take (seconds).
    """
    import grpc

    with channel_to(address) as channel:
        get_status = channel.unary_unary(GET_STATUS)
        try:
            get_status(b"", timeout=timeout)
        except grpc.RpcError:
            return False
    return True


class OwnServer:
    """The TensorFlow server of this process, asked as its peers ask it. It knows of no peer."""

    def __init__(self, address: str):
        """Does nothing yet.

        Args:
            address: host:port that peers use; only the port matters here.
        """
        self._address = f"127.0.0.1:{address.rpartition(':')[2]}"
        self._has_started = False

    def started(self) -> None:
        """From now on the server must answer.

        The coordinator's does so once it is connected: while it waits for tasks, its port is open,
        but nobody answers.
        """
        self._has_started = True

    def is_alive(self) -> str:
        """Empty, or why this process should be started again."""
        if not self._has_started or answers(self._address, SERVER_SECONDS):
            return ""
        return f"the TensorFlow server at {self._address} gave no answer in {SERVER_SECONDS:g} s"

    def is_ready(self) -> str:
        """Empty, or why this process cannot be used now."""
        return self.is_alive() if self._has_started else "the TensorFlow server has not started yet"


def start(
    port: int, is_alive: Callable[[], str], is_ready: Callable[[], str], collector: Any
) -> "HealthServer":
    """Serves `LIVEZ`, `READYZ` and `METRICS` at all addresses, from a thread of its own.

    Args:
        port: TCP port; 0 is any that is free.
        is_alive: returns an empty text, or what is wrong, which becomes the answer of a 503.
        is_ready: likewise.
        collector: a Prometheus collector of the task's metrics; those of the process come with it.

    Raises:
        HealthError: the port cannot be used, or prometheus-client is missing.
    """
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector
    except ImportError:
        raise HealthError(
            f"--health_port={port}: the package prometheus-client is missing: "
            f'pip install "ps-dqn[metrics]"'
        ) from None
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(collector)
    try:
        server = HealthServer(port, _Check(is_alive), _Check(is_ready), registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HealthError(
            f"--health_port={port}: cannot be used ({reason}): choose another"
        ) from None
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server


class _Check:
    """A question that many may ask: put once at a time, and given up on where it takes too long."""

    def __init__(self, check: Callable[[], str]):
        self._check = check
        self._lock = threading.Lock()
        self._pending: concurrent.futures.Future[str] | None = None

    def __call__(self) -> str:
        """What is wrong, or an empty text."""
        with self._lock:
            if self._pending is None or self._pending.done():
                self._pending = concurrent.futures.Future()
                # Not an executor's thread, which the interpreter would wait for when it ends.
                threading.Thread(target=self._run, args=[self._pending], daemon=True).start()
            pending = self._pending
        try:
            return pending.result(CHECK_SECONDS)
        except concurrent.futures.TimeoutError:
            return f"the check gave no answer in {CHECK_SECONDS:g} s"
        except Exception as error:
            return f"the check failed: {type(error).__name__}: {error}"

    def _run(self, result: concurrent.futures.Future[str]) -> None:
        try:
            result.set_result(self._check())
        except BaseException as error:
            result.set_exception(error)


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = SILENCE_SECONDS
    wbufsize = -1  # an answer is one packet
    server: "HealthServer"

    def do_GET(self) -> None:
        """Answers."""
        path = urllib.parse.urlsplit(self.path).path
        if path == METRICS:
            self._answer(*self.server.measured(self.headers.get("Accept", "")))
        elif path in self.server.checks:
            wrong = self.server.checks[path]()
            status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
            self._answer(status, _TEXT, f"{wrong or 'ok'}\n".encode())
        else:
            known = ", ".join([*self.server.checks, METRICS])
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, f"there are {known}\n".encode())

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: probes come every few seconds."""


_TEXT = "text/plain; charset=utf-8"


class HealthServer(socketserver.ThreadingTCPServer):
    """Answers over HTTP; made by `start`.

    Not an `HTTPServer`, which looks its own name up in the DNS before it serves.
    """

    allow_reuse_address = True  # of connections that have ended; a port that is served is taken
    daemon_threads = True

    def __init__(self, port: int, is_alive: _Check, is_ready: _Check, registry: Any):
        self.checks = {LIVEZ: is_alive, READYZ: is_ready}
        self._registry = registry
        super().__init__(("0.0.0.0", port), _Handler)

    @property
    def port(self) -> int:
        """Where it serves."""
        return self.server_address[1]

    def measured(self, accept: str) -> tuple[HTTPStatus, str, bytes]:
        """The metrics now, in the format that the client takes: status, content type, body."""
        from prometheus_client import exposition

        encode, content_type = exposition.choose_encoder(accept)
        try:
            return HTTPStatus.OK, content_type, encode(self._registry)
        except Exception as error:
            text = f"{type(error).__name__}: {error}\n"
            return HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, text.encode()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Reports what went wrong, unless it is only that a client hung up."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Ends it and frees the port."""
        self.shutdown()
        self.server_close()
