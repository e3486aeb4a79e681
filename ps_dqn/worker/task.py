"""A worker task.

Its place comes from TF_CONFIG or flags; what to act in and remember arrives from the coordinator.
"""

import functools
import pathlib

from cluster.spec import ClusterSpec, Task

JOB = "worker"


def serve(
    spec: ClusterSpec,
    task: Task,
    intra_op_threads: int,
    inter_op_threads: int,
    health_port: int = 0,
    worker_dir: str = "",
) -> None:
    """Serves until SIGTERM; does not return.

    Args:
        spec: the cluster.
        task: this task of it.
        intra_op_threads: threads one operation may use.
        inter_op_threads: operations that may run at the same time.
        health_port: where it answers probes; 0: nowhere.
        worker_dir: where this worker may keep files; none if empty.
    """
    from cluster import server

    server.leave_when_told()
    from ps_dqn.telemetry import prometheus
    from ps_dqn.wire import bridge
    from ps_dqn.worker.host import WorkerHost

    folder = pathlib.Path(worker_dir) if worker_dir else None
    bridge.install(functools.partial(WorkerHost, worker_dir=folder))
    server.serve(
        spec,
        task,
        intra_op_threads=intra_op_threads,
        inter_op_threads=inter_op_threads,
        health_port=health_port,
        collector=prometheus.worker(bridge.figures),
        on_stop=bridge.close,
    )
