"""Connections to a peer that is given up: ended, and no others."""

import socket
import sys
from collections.abc import Iterator

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


def test_addresses_from_before_are_remembered(
    servers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = servers[0]
    known = Peer(address(peer, "localhost"))
    client = socket.create_connection(peer.getsockname())
    # A successor has come, elsewhere.
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 1))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert known.cut() == 1
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
