"""Which way of aggregating a configuration names."""

from ps_dqn.config import Config
from ps_dqn.parameter_server import aggregation
from ps_dqn.parameter_server.aggregation import Aggregation
from ps_dqn.parameter_server.pacing import Paced

WAYS: dict[str, type[Aggregation]] = {
    "async": aggregation.Asynchronous,
    "sync": aggregation.Synchronous,
    "trimmed_mean": aggregation.TrimmedMean,
    "median": aggregation.Median,
}


def make(config: Config, num_workers: int) -> Aggregation:
    """The way of aggregating that the configuration names; auto is left to a worker alone.

    Args:
        config: the experiment.
        num_workers: workers that push.
    """
    if config.topology.is_shared:
        return Paced(config, num_workers)
    name = config.parameter_server.aggregation
    return WAYS["async" if name == "auto" else name](config, num_workers)
