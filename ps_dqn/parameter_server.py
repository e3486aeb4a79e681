"""A parameter server task: `python -m ps_dqn.parameter_server`.

Its place comes from TF_CONFIG or flags; what it holds and by which rules arrives from the
coordinator.
"""

import sys

from cluster.spec import ClusterSpec, Task

JOB = "ps"


def serve(
    spec: ClusterSpec,
    task: Task,
    intra_op_threads: int,
    inter_op_threads: int,
    health_port: int = 0,
) -> None:
    """Serves until SIGTERM; does not return.

    Args:
        spec: the cluster.
        task: this task of it.
        intra_op_threads: threads one operation may use.
        inter_op_threads: operations that may run at the same time.
        health_port: where it answers probes; 0: nowhere.
    """
    from cluster import server

    server.leave_when_told()
    from ps_dqn import bridge, exporter, hosts

    bridge.install(hosts.make)
    server.serve(
        spec,
        task,
        intra_op_threads=intra_op_threads,
        inter_op_threads=inter_op_threads,
        health_port=health_port,
        collector=exporter.parameter_server(bridge.figures),
    )


if __name__ == "__main__":
    from flags import task_main

    sys.exit(task_main.run(JOB, serve))
