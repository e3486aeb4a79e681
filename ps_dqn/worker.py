"""A worker task: `python -m ps_dqn.worker`.

Its place comes from TF_CONFIG or flags; what to act in and remember arrives from the coordinator.
"""

import sys

from cluster.spec import ClusterSpec, Task

JOB = "worker"


def serve(spec: ClusterSpec, task: Task, intra_op_threads: int, inter_op_threads: int) -> None:
    """Serves until SIGTERM; does not return."""
    from cluster import server
    from ps_dqn import bridge, hosts

    bridge.install(hosts.make)
    server.serve(
        spec,
        task,
        intra_op_threads=intra_op_threads,
        inter_op_threads=inter_op_threads,
        on_stop=bridge.close,
    )


if __name__ == "__main__":
    from flags import task_main

    sys.exit(task_main.run(JOB, serve))
