"""A cluster of real processes whose tasks tell their process ids; `test_bridge.py` runs this.

Run with TF_CONFIG it is a task of that cluster, which is how a killed worker is started again.
"""

import json
import os
import pathlib
import signal
import sys

from ps_dqn.cluster import lifeline, local, server
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.spec import ClusterSpec, Placement, Task, TaskOptions, from_tf_config


def serve(spec: ClusterSpec, task: Task) -> None:
    from ps_dqn.wire import bridge
    from support.hosts import RoutingHost

    bridge.install(RoutingHost)
    server.serve(spec, task, TaskOptions())


def main(logs: pathlib.Path) -> dict[str, int]:
    import tensorflow as tf

    from ps_dqn.coordinator.connecting import connection
    from ps_dqn.wire import bridge

    worker = Task("worker", 0)
    spec = on_this_machine(num_ps=1, num_workers=1)
    role = local.Role("support.pid_cluster", (), serve)
    cluster = local.LocalCluster(spec, {"ps": role, "worker": role}, logs, "fork")
    with local.running(cluster):
        coordinator = connection.connect(Placement("local", spec, "fork", 1, 2)).coordinator

        @tf.function(autograph=False)
        def pid():
            index = tf.distribute.coordinator.experimental_get_current_worker_index()
            number = tf.TensorSpec([], tf.int64)
            [here] = bridge.call("pid", index, [], [number])
            with tf.device("/job:ps/replica:0/task:0/device:CPU:0"):
                [there] = bridge.call("pid", bridge.server(0), [], [number])
            return here, there

        seen = {
            "coordinator": os.getpid(),
            "ps_process": cluster.pid(Task("ps", 0)),
            "first_process": cluster.pid(worker),
        }
        seen["first"], seen["first_ps"] = map(int, coordinator.schedule(pid).fetch())
        os.kill(cluster.pid(worker), signal.SIGKILL)
        while not cluster.check("worker"):  # returns a line once it has replaced the worker
            pass
        seen["second_process"] = cluster.pid(worker)
        seen["second"], seen["second_ps"] = map(int, coordinator.schedule(pid).fetch())
    return seen


if __name__ == "__main__":
    if "TF_CONFIG" in os.environ:
        lifeline.hold_if_given()
        serve(*from_tf_config(os.environ["TF_CONFIG"]))
    print(json.dumps(main(pathlib.Path(sys.argv[1]))), flush=True)
    os._exit(0)  # as the entry points do: TensorFlow's destructors wait for tasks that are gone
