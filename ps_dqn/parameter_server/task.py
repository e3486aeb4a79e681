"""A parameter server task.

Its place comes from TF_CONFIG or flags; what it holds and by which rules arrives from the
coordinator.
"""

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
    from ps_dqn.parameter_server.host import ParameterHost
    from ps_dqn.telemetry import prometheus
    from ps_dqn.wire import bridge

    bridge.install(lambda _: ParameterHost())
    server.serve(
        spec,
        task,
        intra_op_threads=intra_op_threads,
        inter_op_threads=inter_op_threads,
        health_port=health_port,
        collector=prometheus.parameter_server(bridge.figures),
    )
