"""From a cluster's addresses to something that schedules closures on it."""

from collections.abc import Collection
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.eager import context

from ps_dqn.cluster.spec import Placement, Task
from ps_dqn.coordinator.connecting import executors, known_tasks, runtime
from ps_dqn.coordinator.connecting.members import Members, PartialSpec
from ps_dqn.wire import failures

# A coordinator's destructor waits for its threads, which wait for tasks that may be gone.
_kept: list[Any] = []


class _Strategy(tf.distribute.ParameterServerStrategy):
    """TensorFlow's, which schedules closures on workers of a cluster without servers too."""

    def _verify_args_and_config(self, cluster_resolver: Any) -> None:
        if cluster_resolver.cluster_spec().as_dict().get("ps"):
            super()._verify_args_and_config(cluster_resolver)


class Connection(NamedTuple):
    """To a cluster's tasks."""

    coordinator: Any  # a `tf.distribute.coordinator.ClusterCoordinator`
    members: Members


def connect(
    placement: Placement, present: Collection[int] | None = None, again: bool = False
) -> Connection:
    """Connects this process as the chief; waits until every task answers that is to be there.

    Args:
        placement: the cluster, and this process's thread pools.
        present: indices of the workers that are there; others may come later. None: all of them.
        again: an earlier connection was lost; the pools are as they are.

    Raises:
        ClusterLostError: a task went away meanwhile.
    """
    if not again:
        tf.config.threading.set_intra_op_parallelism_threads(placement.intra_op_threads)
        tf.config.threading.set_inter_op_parallelism_threads(placement.inter_op_threads)
    executors.install()
    there = range(len(placement.spec.workers)) if present is None else present
    cluster = PartialSpec(placement.spec, there)
    if again:
        # This process's server goes on, whoever is there now. TensorFlow begins another one, at the
        # same port, where the cluster is not the one that it knows.
        context.get_server_def().cluster.CopyFrom(cluster.as_cluster_def())
        known_tasks.wait_until_known(
            {
                placement.spec.place(task): placement.spec.addresses(task.job)[task.index]
                for task in placement.spec.tasks()
                if task.job != "worker" or task.index in there
            }
        )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster,
        rpc_layer="grpc",
        task_type="chief",
        task_id=0,
    )
    try:
        strategy = _Strategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        _kept.append(coordinator)
        first = Task("ps", 0) if placement.spec.ps else Task("worker", min(there))
        runtime.install(first, len(placement.spec.workers))
    except tf.errors.OpError as error:
        raise failures.lost(error) from error
    return Connection(coordinator, Members(coordinator, placement.spec, there))
