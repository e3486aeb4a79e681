"""A parameter server task.

Its place comes from TF_CONFIG or flags; what it holds and by which rules arrives from the
coordinator.
"""

from ps_dqn.cluster.spec import ClusterSpec, Task, TaskOptions
from ps_dqn.profiling import timeline
from ps_dqn.run import optional_imports

JOB = "ps"


def serve(spec: ClusterSpec, task: Task, options: TaskOptions) -> None:
    """Serves until SIGTERM; does not return.

    Args:
        spec: the cluster.
        task: this task of it.
        options: its threads, and where it answers probes.
    """
    from ps_dqn.cluster import server

    timeline.begin("starting the process")
    server.leave_when_told()
    with timeline.span("importing what it hosts"), optional_imports.hidden():
        from ps_dqn.parameter_server.host import ParameterHost
        from ps_dqn.telemetry import prometheus, pulse
        from ps_dqn.wire import bridge

    is_serving = timeline.until("starting its server")
    bridge.install(lambda _: ParameterHost())
    server.serve(
        spec,
        task,
        options,
        collector=prometheus.parameter_server(bridge.figures),
        pulse_of=lambda: pulse.encode(bridge.pulse(bridge.server(task.index))),
        on_serving=is_serving,
    )
