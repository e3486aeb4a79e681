"""What a task is at, for who watches it: asked and answered by datagrams, whatever TensorFlow does.

A task's TensorFlow answers that it is there, in C++, and its Python only by way of a graph that
runs on it, which a closure keeps waiting for minutes. So a thread of the task answers at the UDP
port of the same number as the task's own. Who asks knows that address, and nothing else has to be
agreed upon. A datagram may be lost, and a network may let none through: then less is shown.
"""

import contextlib
import dataclasses
import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ps_dqn.cluster.ports import reservation
from ps_dqn.cluster.spec import Task

# From one question to the next, and from one look at where a task is to the next (seconds).
PERIOD, LOOK_UP_SECONDS = 1.0, 30.0
# A question is as long as the longest answer: nobody is sent more than they have sent.
SIZE = 1024
_GREETING = b"ps_dqn pulse "
_NAME = 16  # bytes by which who asks knows the answer


def serve(address: str, pulse: Callable[[], Mapping[str, Any] | None]) -> None:
    """Answers for a task of this process, on a thread of its own.

    Args:
        address: of the task, host:port; only the port matters here.
        pulse: what the task is at, which can be written as JSON; None: nothing yet.
    """
    port = int(address.rpartition(":")[2])
    held = reservation(address)
    own = _socket() if held is None else socket.socket(fileno=held)
    try:
        if held is None:
            own.bind(("", port))
        own.setblocking(True)
    except OSError as error:
        own.close()
        text = f"what this task is at is not shown: UDP port {port}: {error}"
        print(text, file=sys.stderr, flush=True)
        return
    threading.Thread(target=_serve, args=(own, pulse), name="pulse", daemon=True).start()


def _serve(own: socket.socket, pulse: Callable[[], Mapping[str, Any] | None]) -> None:
    while True:
        with contextlib.suppress(OSError):  # who asked is gone
            question, whose = own.recvfrom(SIZE)
            if len(question) < SIZE or not question.startswith(_GREETING):
                continue
            name = question[len(_GREETING) :][:_NAME]
            answer = name + json.dumps(pulse()).encode()
            if len(answer) <= SIZE:
                own.sendto(answer, whose)


@dataclasses.dataclass(frozen=True)
class Heard:
    """An answer."""

    at: float  # `time.monotonic()`
    content: Mapping[str, Any] | None


class Listener:
    """Asks tasks again and again what they are at."""

    def __init__(self, addresses: Mapping[Task, str]):
        """Has asked nobody yet.

        Args:
            addresses: of the tasks, host:port.
        """
        self._tasks = {secrets.token_bytes(_NAME): task for task in addresses}
        self._addresses = addresses
        self._places: dict[Task, list[Any]] = {}
        self._looked_up = -float("inf")
        self._newest: dict[Task, Heard] = {}
        self._stopped = threading.Event()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Asks until the block ends, on a thread of its own."""
        threading.Thread(target=self._run, name="pulses", daemon=True).start()
        try:
            yield
        finally:
            self._stopped.set()

    def newest(self) -> dict[Task, Heard]:
        """The last answer of each task that has ever given one; on any thread."""
        return dict(self._newest)

    def _run(self) -> None:
        with _socket() as own:
            while not self._stopped.is_set():
                self._ask(own)
                self._hear(own, time.monotonic() + PERIOD)

    def _ask(self, own: socket.socket) -> None:
        now = time.monotonic()
        if now - self._looked_up > LOOK_UP_SECONDS:
            # A task that was started again may have another address.
            self._looked_up = now
            for task, address in self._addresses.items():
                with contextlib.suppress(OSError):
                    self._places[task] = _places(own, address)
        for name, task in self._tasks.items():
            for place in self._places.get(task, ()):
                with contextlib.suppress(OSError):  # its network is gone
                    own.sendto((_GREETING + name).ljust(SIZE), place)

    def _hear(self, own: socket.socket, until: float) -> None:
        while (left := until - time.monotonic()) > 0 and not self._stopped.is_set():
            own.settimeout(left)
            try:
                answer = own.recv(SIZE)
            except OSError:  # no answer, or one that says that nobody is there
                continue
            task = self._tasks.get(answer[:_NAME])
            if task is not None:
                with contextlib.suppress(ValueError):
                    self._newest[task] = Heard(time.monotonic(), json.loads(answer[_NAME:]))


def _socket() -> socket.socket:
    """For both kinds of addresses, where there are both."""
    if not socket.has_dualstack_ipv6():
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return made


def _places(own: socket.socket, address: str) -> list[Any]:
    """All that a name stands for: a task may serve one kind of addresses only."""
    host, _, port = address.rpartition(":")
    flags = socket.AI_V4MAPPED | socket.AI_ALL if own.family == socket.AF_INET6 else 0
    found = socket.getaddrinfo(
        host.strip("[]"), int(port), own.family, socket.SOCK_DGRAM, flags=flags
    )
    return [each[4] for each in found]
