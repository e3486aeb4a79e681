"""This process's connections to a peer that does not answer: TensorFlow has no deadline for them.

What waits for such a peer waits for good: a stopped process holds its connections open, and a
network that drops packets tells nobody. Once its connection is shut down, whoever waits hears of
that at once, as if the peer had died.
"""

import contextlib
import os
import socket
import stat


class Peer:
    """A task that this process has connections to, at every address it was ever known to have."""

    def __init__(self, address: str):
        """Looks its name up.

        Args:
            address: host:port.
        """
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._hosts: set[str] = set()
        self.look_up()

    def look_up(self) -> None:
        """Asks the DNS anew: a task that was started again may have another address."""
        with contextlib.suppress(OSError):
            found = socket.getaddrinfo(self._host.strip("[]"), self._port, type=socket.SOCK_STREAM)
            self._hosts |= {_plain(str(each[4][0])) for each in found}

    def cut(self) -> int:
        """Shuts this process's connections to it down; returns how many."""
        self.look_up()
        peers = {(host, self._port) for host in self._hosts}
        return sum(_shut_down_if(descriptor, peers) for descriptor in _descriptors())


def _descriptors() -> list[int]:
    # Both are there on Linux; elsewhere the second one is.
    found = next(filter(os.path.isdir, ("/proc/self/fd", "/dev/fd")))
    return [int(name) for name in os.listdir(found)]


def _plain(host: str) -> str:
    """An IPv4 address that IPv6 stands in for, as itself."""
    return host.removeprefix("::ffff:")


def _shut_down_if(descriptor: int, peers: set[tuple[str, int]]) -> bool:
    """Whether the descriptor was a connection to one of these, which now has ended."""
    with contextlib.suppress(OSError):
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        # A descriptor of its own, so that closing it leaves the owner's open.
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return False
            host, port = connection.getpeername()[:2]
            if (_plain(host), port) in peers:
                connection.shutdown(socket.SHUT_RDWR)
                return True
    return False
