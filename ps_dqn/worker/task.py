"""A worker task.

Its place comes from TF_CONFIG or flags; what to act in and remember arrives from the coordinator.
"""

import functools
import pathlib

from ps_dqn.cluster.spec import ClusterSpec, Task, TaskOptions

JOB = "worker"


def serve(spec: ClusterSpec, task: Task, options: TaskOptions, worker_dir: str = "") -> None:
    """Serves until SIGTERM; does not return.

    Args:
        spec: the cluster.
        task: this task of it.
        options: its threads, and where it answers probes.
        worker_dir: where this worker may keep files; none if empty.
    """
    from ps_dqn.cluster import server

    server.leave_when_told()
    from ps_dqn.environments import overdue
    from ps_dqn.telemetry import prometheus, pulse
    from ps_dqn.wire import bridge
    from ps_dqn.worker.host import WorkerHost

    folder = pathlib.Path(worker_dir) if worker_dir else None
    overdue.watch()
    bridge.install(functools.partial(WorkerHost, worker_dir=folder))
    server.serve(
        spec,
        task,
        options,
        collector=prometheus.worker(bridge.figures),
        on_stop=bridge.leave,
        pulse_of=lambda: pulse.encode(bridge.pulse(task.index)),
    )
