"""A replay server task.

Its place comes from TF_CONFIG or flags; what it keeps arrives from the coordinator.
"""

import pathlib

from ps_dqn.cluster.spec import ClusterSpec, Task, TaskOptions
from ps_dqn.profiling import timeline

JOB = "replay"


def serve(spec: ClusterSpec, task: Task, options: TaskOptions, worker_dir: str = "") -> None:
    """Serves until SIGTERM; does not return.

    Args:
        spec: the cluster.
        task: this task of it.
        options: its threads, and where it answers probes.
        worker_dir: where this task may keep files; none if empty.
    """
    from ps_dqn.cluster import server

    timeline.begin("starting the process")
    server.leave_when_told()
    with timeline.span("importing what it hosts"):
        from ps_dqn.replay_server.host import ReplayHost
        from ps_dqn.telemetry import prometheus, pulse
        from ps_dqn.wire import bridge

    is_serving = timeline.until("starting its server")
    folder = pathlib.Path(worker_dir) if worker_dir else None
    bridge.install(lambda _: ReplayHost(folder))
    number = bridge.server(spec.place(task).index)
    server.serve(
        spec,
        task,
        options,
        collector=prometheus.replay_server(bridge.figures),
        on_stop=bridge.leave,
        pulse_of=lambda: pulse.encode(bridge.pulse(number)),
        on_serving=is_serving,
    )
