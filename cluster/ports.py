"""Clusters of this machine: free ports, each held for the task that is to serve there."""

import errno
import os
import socket

import portpicker

from ps_dqn.cluster.spec import ClusterSpec, ClusterSpecError

# Tasks of a kind that are started on one machine, each a process of hundreds of megabytes.
MOST_LOCAL = 256
# In a task's environment: its port and the descriptor that holds it, as port=descriptor.
RESERVATION_VARIABLE = "PS_DQN_RESERVED_PORT"
_reserved: dict[int, int] = {}  # sockets by port


def on_this_machine(
    num_ps: int, num_workers: int, num_replay: int = 0, num_actors: int = 0
) -> ClusterSpec:
    """A cluster of free local ports, which are this process's until it ends.

    Raises:
        ClusterSpecError: more tasks than a machine has room for.
    """
    counts = {
        "num_ps": num_ps,
        "num_workers": num_workers,
        "num_replay_servers": num_replay,
        "num_actors": num_actors,
    }
    for flag, count in counts.items():
        if count > MOST_LOCAL:
            raise ClusterSpecError(
                f"--{flag}={count}: at most {MOST_LOCAL} of a kind start on one machine, a process "
                f"each; start them on several and say --cluster=remote"
            )
    ports = [reserved_port() for _ in range(1 + sum(counts.values()))]
    chief, *rest = [f"localhost:{port}" for port in ports]
    parts = []
    for count in counts.values():
        parts.append(tuple(rest[:count]))
        rest = rest[count:]
    return ClusterSpec(chief, *parts)


def reserved_port() -> int:
    """A free port that no other cluster on this machine is given.

    Tasks bind it for TCP some seconds later, when another cluster may have been given it too. As
    portpicker offers a port only while it is free for UDP as well, a socket for that holds it.
    """
    while True:
        port = portpicker.pick_unused_port()
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("", port))
        except OSError as error:
            reservation.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue  # another cluster was quicker
        _reserved[port] = reservation.detach()  # held for as long as this process lives
        return port


def reservation(address: str) -> int | None:
    """The descriptor of the socket for datagrams that holds a port, where this process has it.

    Args:
        address: of a task, host:port.
    """
    port = int(address.rpartition(":")[2])
    passed, _, descriptor = os.environ.get(RESERVATION_VARIABLE, "").partition("=")
    return int(descriptor) if passed == str(port) else _reserved.get(port)
