"""What the tasks of an in-process cluster host."""

import contextlib
import pathlib
from collections.abc import Iterator

from ps_dqn.actor.host import ActorHost
from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.parameter_server.host import ParameterHost
from ps_dqn.replay_server.host import ReplayHost
from ps_dqn.wire.bridge import Host
from ps_dqn.worker.host import WorkerHost


def make_host(spec: ClusterSpec, worker_dir: pathlib.Path | None, number: int) -> Host:
    """The host of the task of a number: see `bridge`."""
    if number >= 0:
        return WorkerHost(number, worker_dir, spec.actors)
    task = spec.task_at(Task("ps", -1 - number))
    return ReplayHost(worker_dir) if task.job == "replay" else ParameterHost()


@contextlib.contextmanager
def serve_actors(spec: ClusterSpec) -> Iterator[None]:
    """Has the actors of a cluster in this process, until the block ends."""
    ports = [int(address.rpartition(":")[2]) for address in spec.actors]
    hosts = [ActorHost(port) for port in ports]
    try:
        yield
    finally:
        for host in hosts:
            host.close()
