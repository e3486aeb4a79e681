"""Which part of a run's experience each replay server keeps."""

import dataclasses

from ps_dqn.config import Config
from ps_dqn.config import capacity as capacities
from ps_dqn.config.topology import Topology
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import plan
from ps_dqn.replay.plan import Plan


def check(config: Config, num_servers: int) -> None:
    """Refuses a run of which a replay server would have no part.

    Args:
        config: the experiment, for each actor its share.
        num_servers: replay servers.

    Raises:
        UsageError: with the flags and what to do.
    """
    envs, batch_size = config.environment.envs_per_worker, config.learning.batch_size
    if num_servers > envs:
        raise UsageError(
            f"--num_replay_servers={num_servers}: each keeps some of an actor's environments, "
            f"which has {envs}: say more --num_envs, or fewer replay servers"
        )
    if batch_size % num_servers:
        raise UsageError(
            f"--batch_size={batch_size}: each of --num_replay_servers={num_servers} draws as much "
            f"of a minibatch, so say a multiple of {num_servers}"
        )


def envs_of(config: Config, server: int, num_servers: int) -> int:
    """How many of each actor's environments a server keeps: i, i + n, … of n servers."""
    return len(range(server, config.environment.envs_per_worker, num_servers))


def of(config: Config, server: int, num_servers: int) -> Config:
    """A server's part of a run, as the replay of one worker that has these environments.

    Args:
        config: the experiment, for each actor its share.
        server: index.
        num_servers: replay servers.

    Raises:
        UsageError: it is too small to learn from.
    """
    envs = config.topology.num_actors * envs_of(config, server, num_servers)
    replay = config.replay
    capacity = capacities.of(replay)
    replay = dataclasses.replace(
        replay,
        replay_capacity=None if capacity is None else -(-capacity // num_servers),
        min_replay_size=-(-replay.min_replay_size // num_servers),
    )
    return dataclasses.replace(
        config,
        topology=Topology(),
        environment=dataclasses.replace(
            config.environment, num_envs=envs, num_envs_per_worker=None
        ),
        learning=dataclasses.replace(
            config.learning, batch_size=config.learning.batch_size // num_servers
        ),
        replay=replay,
    )


def planned(config: Config, environment: EnvironmentSpec, server: int, num_servers: int) -> Plan:
    """The replay of a server.

    Raises:
        UsageError: it is too small, or observations cannot be kept as wanted.
    """
    try:
        own = of(config, server, num_servers)
        return plan.plan_replay(own, environment, announced=True)
    except UsageError as error:
        if num_servers == 1:
            raise
        raise UsageError(f"each of {num_servers} replay servers has its share: {error}") from None
