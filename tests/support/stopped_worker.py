"""Closures while a worker is stopped that owes an answer; `test_connection.py` runs this.

Argument: a folder for logs. Prints how many closures the other worker has run meanwhile.
"""

import os
import pathlib
import signal
import sys

from ps_dqn.cluster import local, server
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.spec import ClusterSpec, Placement, Task, TaskOptions

CLOSURES = 3


def serve(spec: ClusterSpec, task: Task) -> None:
    server.serve(spec, task, TaskOptions())


def main(logs: pathlib.Path) -> int:
    import tensorflow as tf

    from ps_dqn.coordinator.connecting import connection
    from ps_dqn.coordinator.scheduling.dispatch import Schedule

    spec = on_this_machine(num_ps=1, num_workers=2)
    role = local.Role("support.stopped_worker", (), serve)
    cluster = local.LocalCluster(spec, {"ps": role, "worker": role}, logs, "fork")
    with local.running(cluster):
        coordinator = connection.connect(Placement("local", spec, "fork", 1, 2)).coordinator

        @tf.function(autograph=False)
        def where():
            return tf.distribute.coordinator.experimental_get_current_worker_index()

        # Each result lies on its worker until nothing here refers to it.
        results = {}
        while len(results) < len(spec.workers):
            value = coordinator.schedule(where)
            results[int(value.fetch())] = value
        del value

        os.kill(cluster.pid(Task("worker", 1)), signal.SIGSTOP)
        results.clear()  # each worker is to forget its own, and one does not answer
        schedule = Schedule(coordinator, CLOSURES + 1, in_order=False)
        for _ in range(CLOSURES + 1):  # one of them goes to the worker that has stopped
            schedule.submit("where", where)
        done = 0
        while done < CLOSURES:
            done += schedule.next(1.0) is not None
    return done


if __name__ == "__main__":
    print(f"closures ended: {main(pathlib.Path(sys.argv[1]))}", flush=True)
    os._exit(0)
