"""Makes a policy of a run's folder."""

import pathlib

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.environments import interface as interfaces
from ps_dqn.environments.interface import Interface
from ps_dqn.errors import UsageError
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy.greedy import greedy_network
from ps_dqn.policy.policy import Policy, Source
from ps_dqn.run import directory
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints


def load(config: Config, folder: pathlib.Path, checkpoint: str = "best") -> Policy:
    """The policy of a run's checkpoint: of the average of its parameters, as evaluations are.

    It needs neither the environment nor its packages, but for folders without `interface.json`.

    Args:
        config: of the run; `flags.run_folder.read` reads it.
        folder: of the run.
        checkpoint: "best" or "newest".

    Raises:
        UsageError: there is no such checkpoint, or it does not fit the network of the flags.
    """
    checkpoints = Checkpoints(folder / directory.CHECKPOINTS, config.run.keep_checkpoints)
    return of_checkpoint(config, folder, checkpoints.find(checkpoint))


def of_checkpoint(config: Config, folder: pathlib.Path, found: Checkpoint) -> Policy:
    """The policy of a checkpoint; see `load`."""
    interface = interface_of(config, folder)
    network = network_of(config, interface, found)
    return Policy(greedy_network(network, interface), interface, source_of(found))


def source_of(found: Checkpoint) -> Source:
    """What is known about a checkpoint's parameters."""
    counters = found.state.counters
    return Source(found.path.name, counters.env_steps, counters.updates, found.eval_return)


def interface_of(config: Config, folder: pathlib.Path) -> Interface:
    """What the run's environment shows and takes, asked of itself where the folder does not say."""
    found = interfaces.read(folder)
    if found is None:
        found = interfaces.of(config, environments.describe(config.environment))
    return found


def network_of(config: Config, interface: Interface, checkpoint: Checkpoint) -> QNetwork:
    """The run's Q-network with the average of a checkpoint in its weights.

    Raises:
        UsageError: they do not fit.
    """
    network = networks.build(config.network, config.value, interface.spec, config.run.seed)
    check_size(network, checkpoint)
    network.assign(checkpoint.state.average)
    return network


def check_size(network: QNetwork, checkpoint: Checkpoint) -> None:
    """Refuses a checkpoint of another network.

    Raises:
        UsageError: it has more parameters, or fewer.
    """
    size = checkpoint.state.average.size
    if size != network.num_parameters:
        raise UsageError(
            f"{checkpoint.path}: has {size:,} parameters, and the network of the run's "
            f"{directory.FLAGFILE} and of flags said here has {network.num_parameters:,}: leave "
            f"out flags that change it; else the folder is of two runs"
        )
