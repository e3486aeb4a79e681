"""The whole cluster in one process, for tests: gRPC servers on threads.

TensorFlow cannot stop such servers, so a process can have one such cluster in its life.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ps_dqn.cluster import pulse, server
from ps_dqn.cluster.spec import ClusterSpec, Task

_servers: list[Any] = []


def start(
    spec: ClusterSpec,
    *,
    intra_op_threads: int,
    inter_op_threads: int,
    pulse_of: Callable[[Task], Mapping[str, Any] | None] | None = None,
) -> None:
    """Starts every worker and parameter server of `spec` in this process.

    Args:
        spec: the cluster.
        intra_op_threads: of each task.
        inter_op_threads: likewise.
        pulse_of: what a task is at, for who asks; see `pulse`.

    Raises:
        RuntimeError: this process already has such a cluster.
    """
    if _servers:
        raise RuntimeError("this process already runs an in-process cluster")
    # All servers of a process share one pool, and a running closure holds a thread of it.
    threads = intra_op_threads, inter_op_threads * len(spec.tasks())
    _servers.extend(
        server.start(spec, task, server.session_config(task.job, *threads)) for task in spec.tasks()
    )
    if pulse_of is not None:
        for task in spec.tasks():
            pulse.serve(spec.addresses(task.job)[task.index], functools.partial(pulse_of, task))
