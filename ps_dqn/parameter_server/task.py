"""A parameter server task.

Its place comes from TF_CONFIG or flags; what it holds and by which rules arrives from the
coordinator.
"""

from ps_dqn.cluster.spec import ClusterSpec, Task, TaskOptions

JOB = "ps"


def serve(spec: ClusterSpec, task: Task, options: TaskOptions) -> None:
    """Serves until SIGTERM; does not return.

    Args:
        spec: the cluster.
        task: this task of it.
        options: its threads, and where it answers probes.
    """
    from ps_dqn.cluster import server

    server.leave_when_told()
    from ps_dqn.parameter_server.host import ParameterHost
    from ps_dqn.telemetry import prometheus, pulse
    from ps_dqn.wire import bridge

    bridge.install(lambda _: ParameterHost())
    server.serve(
        spec,
        task,
        options,
        collector=prometheus.parameter_server(bridge.figures),
        pulse_of=lambda: pulse.encode(bridge.pulse(bridge.server(task.index))),
    )
