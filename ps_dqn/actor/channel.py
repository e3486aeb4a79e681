"""Messages between two processes: bytes of a length that is said first, over one connection.

TensorFlow's own connections are for tasks that run its graphs, and actors have no TensorFlow.
"""

import contextlib
import socket
import struct
import threading

import numpy as np

_LENGTH = struct.Struct("<q")
# What one message may have (bytes): more is from something else that has found this port.
MOST = 2**33
# How long it may take to connect (seconds).
CONNECT_SECONDS = 3.0


class Channel:
    """One end of a connection; one thread may receive while others send."""

    def __init__(self, connection: socket.socket):
        """Takes over a connection, and how long it waits."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection, self._lock = connection, threading.Lock()

    def wait_at_most(self, seconds: float | None) -> None:
        """For each part of a message from now on; None: for as long as it takes."""
        self._connection.settimeout(seconds)

    def send(self, message: bytes) -> None:
        """Sends one message.

        Raises:
            OSError: the connection is lost.
        """
        with self._lock:
            self._connection.sendall(_LENGTH.pack(len(message)) + message)

    def receive(self) -> np.ndarray:
        """Waits for one message; uint8, its own memory.

        Raises:
            OSError: the connection is lost, or the other end is something else.
        """
        [length] = _LENGTH.unpack(self._exactly(_LENGTH.size).tobytes())
        if not 0 <= length <= MOST:
            raise ConnectionError(f"a message of {length} bytes: the other end is something else")
        return self._exactly(length)

    def close(self) -> None:
        """Ends it; whoever waits at either end hears of that."""
        with contextlib.suppress(OSError):  # the other end was quicker
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _exactly(self, length: int) -> np.ndarray:
        found = np.empty(length, np.uint8)
        left = found.data
        while left:
            count = self._connection.recv_into(left)
            if not count:
                raise ConnectionError("the other end has closed the connection")
            left = left[count:]
        return found


def connect(address: str) -> Channel:
    """Connects to a task, which then has as long for each part of what it says.

    Args:
        address: host:port.

    Raises:
        OSError: nobody is there.
    """
    host, _, port = address.rpartition(":")
    place = host.strip("[]"), int(port)
    return Channel(socket.create_connection(place, timeout=CONNECT_SECONDS))
