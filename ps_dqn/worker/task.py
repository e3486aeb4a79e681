"""A worker task.

Its place comes from TF_CONFIG or flags; what to act in and remember arrives from the coordinator.
"""

import pathlib
import sys

from ps_dqn.cluster.spec import ClusterSpec, Task, TaskOptions
from ps_dqn.errors import UsageError
from ps_dqn.profiling import timeline
from ps_dqn.run import optional_imports
from ps_dqn.run.signals import WRONG_USAGE

JOB = "worker"


def serve(
    spec: ClusterSpec,
    task: Task,
    options: TaskOptions,
    worker_dir: str = "",
    all_reduce_port: int = 0,
) -> None:
    """Serves until SIGTERM; does not return.

    Args:
        spec: the cluster.
        task: this task of it.
        options: its threads, and where it answers probes.
        worker_dir: where this worker may keep files; none if empty.
        all_reduce_port: where other workers reach it, where they add up; 0: any that is free.
    """
    from ps_dqn.cluster import server

    timeline.begin("starting the process")
    server.leave_when_told()
    with timeline.span("importing what it hosts"), optional_imports.hidden():
        from ps_dqn.all_reduce.host import ReplicaHost
        from ps_dqn.environments import overdue
        from ps_dqn.telemetry import prometheus, pulse
        from ps_dqn.wire import bridge
        from ps_dqn.worker.host import WorkerHost

    is_serving = timeline.until("starting its server")
    folder = pathlib.Path(worker_dir) if worker_dir else None
    overdue.watch()
    bridge.install(
        lambda number: (
            WorkerHost(number, folder, spec.actors, _end)
            if number >= 0
            else ReplicaHost(
                bridge.server(number), all_reduce_port, lambda: bridge.recording(task.index)
            )
        )
    )
    server.serve(
        spec,
        task,
        options,
        collector=prometheus.worker(bridge.figures),
        on_stop=bridge.leave,
        pulse_of=lambda: pulse.encode(bridge.pulse(task.index)),
        on_serving=is_serving,
    )


def _end(error: UsageError) -> None:
    """Ends this process with an error for whoever has started it; on any thread."""
    from ps_dqn.environments import overdue

    print(f"error: {error}", file=sys.stderr, flush=True)
    overdue.end_process(WRONG_USAGE)
