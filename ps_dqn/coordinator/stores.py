"""Who holds a run's parameters: the one place that tells the homes of `Store` apart."""

from collections.abc import Collection

from ps_dqn.all_reduce.store import ReplicaStore
from ps_dqn.cluster.spec import ClusterSpec
from ps_dqn.config import Config
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.store import Store


def make(config: Config, spec: ClusterSpec, present: Collection[int]) -> Store:
    """Those of a run on a cluster that is connected, with a session of its own.

    Args:
        config: the experiment.
        spec: the cluster.
        present: indices of the workers that are there.
    """
    if not config.parameter_server.has_servers:
        return ReplicaStore(config, spec.workers, present)
    return ParameterStore(config, len(spec.ps), config.topology.pushing(len(spec.workers)))
