"""From a cluster's addresses to something that schedules closures on it."""

from typing import Any

import tensorflow as tf

from cluster.spec import Placement


def connect(placement: Placement) -> Any:
    """Connects this process as the chief; waits until every task answers.

    Returns:
        A `tf.distribute.coordinator.ClusterCoordinator`.
    """
    tf.config.threading.set_intra_op_parallelism_threads(placement.intra_op_threads)
    tf.config.threading.set_inter_op_parallelism_threads(placement.inter_op_threads)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(placement.spec.as_dict()),
        rpc_layer="grpc",
        task_type="chief",
        task_id=0,
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return tf.distribute.coordinator.ClusterCoordinator(strategy)
