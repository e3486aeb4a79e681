"""Connections to a peer that is given up: ended, and no others."""

import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ps_dqn.cluster import connections
from ps_dqn.cluster.connections import Peer


@pytest.fixture
def servers() -> Iterator[list[socket.socket]]:
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    yield made
    for each in made:
        each.close()


def address(server: socket.socket, host: str) -> str:
    return f"{host}:{server.getsockname()[1]}"


def ipv6_to_ipv4(server: socket.socket) -> socket.socket:
    """As gRPC connects."""
    client = socket.socket(socket.AF_INET6)
    client.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
    return client


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_every_connection_to_the_peer_ends_and_no_other(
    servers: list[socket.socket], host: str
) -> None:
    peer, other = servers
    cut = [socket.create_connection(peer.getsockname()), ipv6_to_ipv4(peer)]
    kept = socket.create_connection(other.getsockname())
    theirs, _ = other.accept()

    assert Peer(address(peer, host)).cut() == 2
    assert [each.recv(1) for each in cut] == [b"", b""]  # whoever reads hears of the end
    theirs.sendall(b"x")
    assert kept.recv(1) == b"x"
    for each in [*cut, kept, theirs]:
        each.close()


def test_a_peer_without_connections(servers: list[socket.socket]) -> None:
    assert Peer(address(servers[0], "127.0.0.1")).cut() == 0


def test_a_peer_whose_name_is_not_known() -> None:
    assert Peer("no-such-host.invalid:1234").cut() == 0


ELSEWHERE = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 1))]
NOWHERE = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
ILL = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.mark.parametrize(
    ("answer", "still_there"),
    [(ELSEWHERE, 0), (NOWHERE, 0), (ILL, 1)],
    ids=["elsewhere", "nowhere", "no answer"],
)
def test_an_address_that_it_no_longer_has_may_be_another_tasks(
    answer: Any,
    still_there: int,
    servers: list[socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = Peer(address(servers[0], "localhost"))
    before = socket.create_connection(servers[0].getsockname())

    def look_up(*_: Any, **__: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert known.cut() == 1, "of the task that was there"
    after = socket.socket()
    after.connect(servers[0].getsockname())
    before.close()
    assert known.cut() == still_there
    after.close()


def test_nobody_waits_for_a_dns_that_is_silent(
    servers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    known, is_back = Peer(address(servers[0], "localhost")), threading.Event()
    client = socket.create_connection(servers[0].getsockname())
    monkeypatch.setattr(connections, "LOOK_UP_SECONDS", 0.0)
    asked: list[str] = []

    def is_silent(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        is_back.wait()
        return ELSEWHERE

    monkeypatch.setattr(socket, "getaddrinfo", is_silent)
    try:
        assert known.cut() == 1
        assert known.cut() == 1, "it is asked once, and the task has the address that it had"
        assert asked == ["localhost"]
    finally:
        is_back.set()
        client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="does nothing there")
def test_the_kernel_ends_connections_to_nodes_that_do_not_answer(
    servers: list[socket.socket],
) -> None:
    client = ipv6_to_ipv4(servers[0])
    theirs, _ = servers[0].accept()
    connections.end_silent_ones()
    for each in (client, theirs):
        assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        timeout = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        idle = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        assert idle < timeout / 1000 == connections.SILENT_SECONDS
    client.sendall(b"x")
    assert theirs.recv(1) == b"x"
    client.close()
    theirs.close()
