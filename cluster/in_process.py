"""The whole cluster in one process, for tests: gRPC servers on threads.

TensorFlow cannot stop such servers, so a process can have one such cluster in its life.
"""

from typing import Any

from ps_dqn.cluster import server
from ps_dqn.cluster.spec import ClusterSpec

_servers: list[Any] = []


def start(spec: ClusterSpec, *, intra_op_threads: int, inter_op_threads: int) -> None:
    """Starts every worker and parameter server of `spec` in this process.

    Raises:
        RuntimeError: this process already has such a cluster.
    """
    if _servers:
        raise RuntimeError("this process already runs an in-process cluster")
    # All servers of a process share one pool, and a running closure holds a thread of it.
    config = server.session_config(intra_op_threads, inter_op_threads * len(spec.tasks()))
    _servers.extend(server.start(spec, task, config) for task in spec.tasks())
