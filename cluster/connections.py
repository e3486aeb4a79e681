"""This process's connections to a peer that does not answer: TensorFlow has no deadline for them.

What waits for such a peer waits for good: a stopped process holds its connections open, and a
network that drops packets tells nobody. Once its connection is shut down, whoever waits hears of
that at once, as if the peer had died.
"""

import contextlib
import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator

# After so long without a sign of the peer's node a connection ends; when it is asked for one, and
# how often (seconds).
SILENT_SECONDS, IDLE_SECONDS, ASK_SECONDS = 10, 3, 2
# The DNS is waited for (seconds): whoever looks after one task looks after all of them.
LOOK_UP_SECONDS = 1.0


class Peer:
    """A task that this process has connections to, wherever its name says that it is."""

    def __init__(self, address: str):
        """Looks its name up.

        Args:
            address: host:port.
        """
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._places: set[tuple[str, int]] = set()
        self._asking: threading.Thread | None = None
        self.look_up()

    def look_up(self) -> None:
        """Asks the DNS anew: a task that was started again may have another address.

        What it had before may be another task's by now. Where the DNS takes its time, its answer
        counts when it comes, and this returns.
        """
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._ask, name="look up", daemon=True)
            self._asking.start()
            self._asking.join(LOOK_UP_SECONDS)

    def cut(self) -> int:
        """Shuts this process's connections to it down, and to its successor; returns how many."""
        places = self._places
        ended = _shut_down(places)
        self.look_up()
        return ended + _shut_down(self._places - places)

    def _ask(self) -> None:
        try:
            found = socket.getaddrinfo(self._host.strip("[]"), self._port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME:  # it is nowhere
                self._places = set()
        except OSError:
            pass
        else:
            self._places = {(_plain(str(each[4][0])), self._port) for each in found}


def _descriptors() -> list[int]:
    # Both are there on Linux; elsewhere the second one is. In a bare root folder none is.
    found = next(filter(os.path.isdir, ("/proc/self/fd", "/dev/fd")), None)
    return [] if found is None else [int(name) for name in os.listdir(found)]


def _plain(host: str) -> str:
    """An IPv4 address that IPv6 stands in for, as itself."""
    return host.removeprefix("::ffff:")


def end_silent_ones() -> None:
    """Has the kernel end this process's connections whose peers' nodes stop answering.

    After a network has lost its packets for a minute, TCP may take another one until it tries
    again, and nothing but a new connection is sooner. A process that stands still is no silence:
    its node answers for it. It holds for the connections that there are; does nothing but on Linux.
    """
    if sys.platform == "linux":
        for descriptor in _descriptors():
            with contextlib.suppress(OSError), _connection(descriptor) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in (
                    (socket.TCP_KEEPIDLE, IDLE_SECONDS),
                    (socket.TCP_KEEPINTVL, ASK_SECONDS),
                    (socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1000),
                ):
                    connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _shut_down(places: set[tuple[str, int]]) -> int:
    return sum(_shut_down_if(descriptor, places) for descriptor in _descriptors())


def _shut_down_if(descriptor: int, peers: set[tuple[str, int]]) -> bool:
    """Whether the descriptor was a connection to one of these, which now has ended."""
    with contextlib.suppress(OSError), _connection(descriptor) as connection:
        host, port = connection.getpeername()[:2]
        if (_plain(host), port) in peers:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


@contextlib.contextmanager
def _connection(descriptor: int) -> Iterator[socket.socket]:
    """A TCP socket behind a descriptor.

    Raises:
        OSError: there is none.
    """
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError(f"{descriptor} is no socket")
    # A descriptor of its own, so that closing it leaves the owner's open.
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            raise OSError(f"{descriptor} is no connection over IP")
        yield connection
