"""Health over HTTP: what a probe and Prometheus get, whatever the task is doing."""

import contextlib
import http.client
import pathlib
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import core

from ps_dqn.cluster import health

ROOT = pathlib.Path(__file__).parents[2]


class Battery:
    """A collector of one metric, which may be broken."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def collect(self) -> Iterator[object]:
        if self.error:
            raise self.error
        yield core.GaugeMetricFamily("battery_volts", "Volts of the battery.", 1.5)


Serve = Callable[..., health.HealthServer]


def well() -> str:
    return ""


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves health on a free port until the test ends."""
    started: list[health.HealthServer] = []

    def start(
        is_alive: Callable[[], str] = well,
        is_ready: Callable[[], str] = well,
        collector: object = None,
    ) -> health.HealthServer:
        started.append(health.start(0, is_alive, is_ready, collector or Battery()))
        return started[-1]

    yield start
    for server in started:
        server.close()


def get(server: health.HealthServer, path: str) -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_task_that_is_well_says_so(serve: Serve) -> None:
    server = serve()

    assert get(server, health.LIVEZ) == (200, "ok\n")
    assert get(server, health.READYZ) == (200, "ok\n")


def test_alive_and_ready_are_asked_apart_and_anew_each_time(serve: Serve) -> None:
    wrong = {"alive": "", "ready": "no coordinator yet"}
    server = serve(lambda: wrong["alive"], lambda: wrong["ready"])

    assert get(server, health.LIVEZ) == (200, "ok\n")
    assert get(server, health.READYZ) == (503, "no coordinator yet\n")
    wrong.update(alive="it is on fire", ready="")
    assert get(server, health.LIVEZ) == (503, "it is on fire\n")
    assert get(server, health.READYZ) == (200, "ok\n")


def test_metrics_are_the_collectors_and_those_of_the_process(serve: Serve) -> None:
    status, text = get(serve(), health.METRICS)

    assert status == 200
    assert "\nbattery_volts 1.5\n" in text
    assert "\nprocess_start_time_seconds " in text


def test_a_query_after_the_path_changes_nothing(serve: Serve) -> None:
    assert get(serve(), f"{health.LIVEZ}?verbose") == (200, "ok\n")


def test_other_paths_are_answered_with_those_that_there_are(serve: Serve) -> None:
    assert get(serve(), "/healthz") == (404, "there are /livez, /readyz, /metrics\n")


def test_a_check_that_raises_is_a_503_and_is_asked_again(serve: Serve) -> None:
    errors = [RuntimeError("no battery")]

    def is_alive() -> str:
        if errors:
            raise errors.pop()
        return ""

    server = serve(is_alive)

    assert get(server, health.LIVEZ) == (503, "the check failed: RuntimeError: no battery\n")
    assert get(server, health.LIVEZ) == (200, "ok\n")


def test_a_check_that_hangs_is_a_503_and_holds_up_nothing_else(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, release = [], threading.Event()

    def is_alive() -> str:
        calls.append(threading.current_thread())
        release.wait()
        return ""

    server = serve(is_alive)
    try:
        for _ in range(3):
            monkeypatch.setattr(health, "CHECK_SECONDS", 0.5)
            assert get(server, health.LIVEZ) == (503, "the check gave no answer in 0.5 s\n")
            monkeypatch.setattr(health, "CHECK_SECONDS", 30.0)  # on a machine under load, too
            assert get(server, health.READYZ) == (200, "ok\n")
            assert get(server, health.METRICS)[0] == 200
        # Probes that come again and again do not pile up threads.
        assert len(calls) == 1
    finally:
        release.set()
    calls[0].join(30)
    assert get(server, health.LIVEZ) == (200, "ok\n")
    assert len(calls) == 2


def test_metrics_that_cannot_be_read_are_a_500_once(serve: Serve) -> None:
    battery = Battery()
    battery.error = ZeroDivisionError("no volts")
    server = serve(collector=battery)

    assert get(server, health.METRICS) == (500, "ZeroDivisionError: no volts\n")
    assert get(server, health.LIVEZ) == (200, "ok\n")
    battery.error = None
    assert get(server, health.METRICS)[0] == 200


def test_a_connection_may_ask_again(serve: Serve) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", serve().port, timeout=30)
    try:
        connection.connect()
        first = connection.sock
        for path in (health.LIVEZ, health.METRICS, "/nothing", health.READYZ):
            connection.request("GET", path)
            connection.getresponse().read()
            assert connection.sock is first
    finally:
        connection.close()


def test_a_silent_client_is_hung_up_on_and_holds_up_nobody(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert health._Handler.timeout == health.SILENCE_SECONDS
    server = serve()

    # Whoever asks has longer: on a machine under load a question may come late.
    monkeypatch.setattr(health._Handler, "timeout", 30.0)
    with socket.create_connection(("127.0.0.1", server.port)):
        assert get(server, health.LIVEZ) == (200, "ok\n")
    monkeypatch.setattr(health._Handler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as silent:
        assert silent.recv(1) == b""


def test_neither_requests_nor_clients_that_hang_up_are_written_about(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    requested, release = threading.Event(), threading.Event()
    answering: list[threading.Thread] = []

    def is_alive() -> str:
        requested.set()
        release.wait(30)
        return ""

    def answers(handler: health._Handler) -> None:
        answering.append(threading.current_thread())
        do_get(handler)

    do_get = health._Handler.do_GET
    monkeypatch.setattr(health._Handler, "do_GET", answers)
    server = serve(is_alive)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
        assert requested.wait(30)
        # Closing sends a reset, so that the answer cannot be written.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    release.set()
    [thread] = answering
    thread.join(30)
    assert not thread.is_alive()

    assert get(server, health.LIVEZ) == (200, "ok\n")
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_refused_in_one_line(serve: Serve) -> None:
    port = serve().port

    with pytest.raises(health.HealthError) as refused:
        health.start(port, well, well, Battery())

    assert str(refused.value) == (
        f"--health_port={port}: cannot be used (Address already in use): choose another"
    )


def test_a_closed_servers_port_is_free_again(serve: Serve) -> None:
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        while client.recv(1000):
            pass  # the server hangs up first, and its end of the connection lingers
    server.close()

    with contextlib.closing(health.start(server.port, well, well, Battery())) as again:
        assert get(again, health.LIVEZ) == (200, "ok\n")


def test_a_missing_package_is_refused_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(health.HealthError) as refused:
        health.start(8080, well, well, Battery())

    assert str(refused.value) == (
        "--health_port=8080: the package prometheus-client is missing: "
        'pip install "ps-dqn[metrics]"'
    )


def test_importing_it_starts_nothing_that_a_fork_would_break() -> None:
    program = (
        "import sys, threading; from cluster import health\n"
        "print([name for name in sys.modules if name.startswith(('tensor', 'grpc', 'prom'))])\n"
        "print(threading.active_count())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert ran.stdout == "[]\n1\n"
