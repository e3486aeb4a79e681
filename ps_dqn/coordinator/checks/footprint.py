"""What a run's minibatches and parameters take at the least, against the memory there is."""

import itertools
import math

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import budget

# Vectors of all parameters that a task has at the same time, at the least. A parameter server:
# online, target, average, momentum. A worker: online, target, Adam's two, gradient, change; and the
# change that it keeps until a snapshot has it, where they are taken. The coordinator: those of a
# checkpoint, and the first ones.
_OF_SERVERS, _OF_A_WORKER, _OF_THE_COORDINATOR = 4, 6, 5


def check(
    config: Config,
    environment: EnvironmentSpec,
    num_workers: int,
    is_remote: bool,
    limit: budget.Limit | None = None,
) -> None:
    """Refuses what cannot fit, before any task starts.

    Args:
        config: the experiment.
        environment: what is acted in.
        num_workers: workers of the run.
        is_remote: each task has a machine of its own, about which nothing is known but that it is
            no less than this one's share of all.
        limit: the memory of this machine; None: asks the system.

    Raises:
        UsageError: with the flag, its value and what it takes.
    """
    limit = budget.available() if limit is None else limit
    workers = 1 if is_remote else num_workers
    batches = workers * _minibatch_bytes(config, environment)
    if batches > limit.nbytes:
        raise UsageError(
            f"--batch_size={config.learning.batch_size}: the minibatches of "
            f"--local_updates={config.parameter_server.local_updates} take {budget.show(batches)} "
            f"in {workers} worker{'s' if workers > 1 else ''}, and there are "
            f"{budget.show(limit.nbytes)} {limit.what}: make one of them smaller"
        )
    copies = _OF_THE_COORDINATOR
    if not is_remote:
        keeps = config.faults.snapshot_period > 0 and config.parameter_server.pushes_are_exact
        copies += _OF_SERVERS + (_OF_A_WORKER + keeps) * workers
    parameters = copies * 4 * _least_parameters(config, environment)
    if parameters > limit.nbytes:
        sizes = ",".join(map(str, config.network.hidden_sizes))
        raise UsageError(
            f"--hidden_sizes={sizes}: the parameters take {budget.show(parameters)} in all tasks "
            f"here, and there are {budget.show(limit.nbytes)} {limit.what}: make layers smaller"
        )


def _minibatch_bytes(config: Config, environment: EnvironmentSpec) -> int:
    """Of one push; of a transition both observations, of a sequence at least one."""
    if config.replay.replay == "rollout":
        return 0  # as large as the rollout, whatever the batch
    observation = math.prod(environment.observation_shape) * environment.observation_dtype.itemsize
    observations = 1 if config.state_size else 2
    updates = config.parameter_server.local_updates
    return observations * observation * updates * config.learning.batch_size


def _least_parameters(config: Config, environment: EnvironmentSpec) -> int:
    """Weights of the dense layers; what is before them is known for plain networks only."""
    network = config.network
    if ":" in network.network:
        return 0
    widths = [*network.hidden_sizes, environment.num_outputs]
    if network.network == "mlp":
        widths.insert(0, environment.num_inputs)
    return sum(before * after for before, after in itertools.pairwise(widths))
