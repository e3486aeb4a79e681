"""A network of pods: one network namespace for each, all joined by a bridge on a node of its own.

Nothing of it touches the machine's own network: the bridge, too, is in a namespace, which stands
for the node that the kubelet probes from.
"""

import concurrent.futures
import contextlib
import ctypes
import dataclasses
import os
import pathlib
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import TypeVar

PREFIX = "psdqn"
NODE = "10.244.0.1"
_NAMESPACES = pathlib.Path("/run/netns")
_CLONE_NEWNET = 0x40000000
Result = TypeVar("Result")


def mark() -> str:
    """Begins the name of everything this process makes; `leftovers` knows it by that."""
    return f"{PREFIX}-{os.getpid()}-"


def is_leftover(name: str) -> bool:
    """Whether this is the name of something whose maker is gone."""
    prefix, _, rest = name.partition("-")
    maker, _, _ = rest.partition("-")
    return prefix == PREFIX and maker.isdigit() and not pathlib.Path("/proc", maker).exists()


def command(*words: str, stdin: str = "") -> str:
    """Runs a command; what it wrote.

    Raises:
        RuntimeError: it failed.
    """
    ran = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {ran.returncode}: {ran.stderr.strip()}")
    return ran.stdout


@dataclasses.dataclass(frozen=True)
class Interface:
    """A pod's place in the network."""

    namespace: str
    address: str

    @property
    def path(self) -> pathlib.Path:
        return _NAMESPACES / self.namespace


class Network:
    """Makes and removes interfaces. Addresses are never used twice, like those of a real one."""

    def __init__(self) -> None:
        clear_leftovers()
        self.node = Interface(f"{mark()}node", NODE)
        self._used = 1
        self._interfaces: list[Interface] = []
        try:
            self._make_node()
        except BaseException:
            self.close()
            raise

    def attach(self, name: str) -> Interface:
        """A namespace with an address of its own."""
        self._used += 1
        high, low = divmod(self._used, 256)
        interface = Interface(f"{mark()}{name}-{self._used}", f"10.244.{high}.{low}")
        self._interfaces.append(interface)
        command("ip", "netns", "add", interface.namespace)
        port = f"veth{self._used}"
        peer = ["peer", "name", "eth0", "netns", interface.namespace]
        self._on(self.node, "link", "add", port, "type", "veth", *peer)
        self._on(self.node, "link", "set", port, "master", "bridge", "up")
        self._on(interface, "address", "add", f"{interface.address}/16", "dev", "eth0")
        for device in ("eth0", "lo"):
            self._on(interface, "link", "set", device, "up")
        return interface

    def detach(self, interface: Interface) -> None:
        """Takes a pod's place away; whatever still runs there is killed."""
        self._interfaces.remove(interface)
        _remove(interface.namespace)

    def close(self) -> None:
        for interface in [*self._interfaces]:
            self.detach(interface)
        if self.node.path.exists():
            _remove(self.node.namespace)

    def _make_node(self) -> None:
        command("ip", "netns", "add", self.node.namespace)
        self._on(self.node, "link", "add", "bridge", "type", "bridge")
        self._on(self.node, "address", "add", f"{NODE}/16", "dev", "bridge")
        for device in ("bridge", "lo"):
            self._on(self.node, "link", "set", device, "up")

    @staticmethod
    def _on(interface: Interface, *words: str) -> None:
        command("ip", "-netns", interface.namespace, *words)


def enter(interface: Interface) -> None:
    """Moves the calling thread, and no other, into a namespace; there is no way back."""
    libc = ctypes.CDLL(None, use_errno=True)
    with interface.path.open() as namespace:
        if libc.setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns to {interface.namespace}")


def inside(interface: Interface, function: Callable[[], Result]) -> Result:
    """What a function returns that is called in a namespace."""
    with concurrent.futures.ThreadPoolExecutor(1, "pod", enter, (interface,)) as thread:
        return thread.submit(function).result()


def connects(source: Interface, target: Interface, port: int, seconds: float) -> bool:
    """Whether a connection from one pod to another is accepted within so many seconds."""

    def connect() -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection((target.address, port), seconds).close()
            return True
        return False

    return inside(source, connect)


def leftovers() -> list[str]:
    """The namespaces of processes that are gone."""
    return [path.name for path in _NAMESPACES.glob(f"{PREFIX}-*") if is_leftover(path.name)]


def made_here() -> list[str]:
    """The namespaces this process has."""
    return [path.name for path in _NAMESPACES.glob(f"{mark()}*")]


def clear_leftovers() -> None:
    """Removes what a killed process left."""
    for namespace in leftovers():
        try:
            _remove(namespace)
        except RuntimeError:
            if (_NAMESPACES / namespace).exists():  # no other test process was quicker
                raise


def _remove(namespace: str) -> None:
    for pid in command("ip", "netns", "pids", namespace).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    command("ip", "netns", "delete", namespace)
