"""From a cluster's addresses to something that schedules closures on it."""

from typing import Any

import tensorflow as tf

from cluster.spec import Placement
from ps_dqn.coordinator import executors
from ps_dqn.wire import failures

# A coordinator's destructor waits for its threads, which wait for tasks that may be gone.
_kept: list[Any] = []


def connect(placement: Placement, again: bool = False) -> Any:
    """Connects this process as the chief; waits until every task answers.

    Args:
        placement: the cluster, and this process's thread pools.
        again: an earlier connection was lost; the pools are as they are.

    Returns:
        A `tf.distribute.coordinator.ClusterCoordinator`.

    Raises:
        ClusterLostError: a task went away meanwhile.
    """
    if not again:
        tf.config.threading.set_intra_op_parallelism_threads(placement.intra_op_threads)
        tf.config.threading.set_inter_op_parallelism_threads(placement.inter_op_threads)
    executors.install()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(placement.spec.as_dict()),
        rpc_layer="grpc",
        task_type="chief",
        task_id=0,
    )
    try:
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    except tf.errors.OpError as error:
        raise failures.lost(error) from error
    _kept.append(coordinator)
    return coordinator
