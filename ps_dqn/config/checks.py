"""Combinations of options that cannot work, each refused with one line.

What an option needs to have an effect stands beside it, and so do its limits: see `options`.
"""

import math

from ps_dqn.config import capacity, scaling, strategy
from ps_dqn.config.agent import EXPECTED, NETWORKS, Network, Value
from ps_dqn.config.topics import Topics
from ps_dqn.errors import UsageError

# Updates of a push in which the window of replay=recent can narrow in steps worth the name.
FEWEST_FOR_RECENT = 8


def check(config: Topics) -> None:
    """Refuses options that do not go together.

    Raises:
        UsageError: with the flags, their values and what to do.
    """
    config.environment.check_kwargs()
    check_network(config.network, config.value)
    strategy.check(config)
    _check_schedules(config)
    _check_values(config)
    _check_target(config)
    config.replay.check_traces(config.value)
    config.profiling.check()
    config.precision.check_beside(config.network, config.topology)
    network, value, replay = config.network, config.value, config.replay
    config.actor_critic.check_beside(
        network, value, replay, config.exploration, config.parameter_server
    )
    options = config.demonstrations, config.parameter_server
    config.topology.check_beside(
        config.environment, network, value, replay, config.resets, *options
    )
    config.demonstrations.check_beside(network, value, config.learning, replay)
    config.resets.check_beside(config.network, config.learning, config.replay)
    config.pruning.check_beside(
        network, config.parameter_server, config.resets, config.run.total_env_steps
    )
    config.value.check_beside_branches(config.environment, config.network, config.replay.replay)
    check_kept = _check_rollout if config.replay.replay == "rollout" else _check_replay
    check_kept(config)


def check_workers(config: Topics, num_workers: int, is_remote: bool) -> None:
    """Refuses options that do not go with these workers.

    Args:
        config: the experiment.
        num_workers: how many the run is for.
        is_remote: others start them.

    Raises:
        UsageError: with the flags, their values and what to do.
    """
    config.topology.check_workers(num_workers)
    backup = config.parameter_server.backup_workers
    if backup >= num_workers:
        raise UsageError(
            f"--backup_workers={backup}: must be less than --num_workers={num_workers}, a round "
            f"waits for the others"
        )
    strategy.check_trimming(config.parameter_server, config.topology.pushing(num_workers) - backup)
    _check_pace(config, config.topology.pushing(num_workers))
    least = config.faults.min_workers
    if least > num_workers:
        raise UsageError(
            f"--min_workers={least}: the run is for {num_workers}, so at most as many can be there"
        )
    if least and not is_remote:
        raise UsageError(
            f"--min_workers={least}: goes with --cluster=remote alone, a cluster of this machine "
            f"starts all of its workers"
        )
    if math.isfinite(limit := config.faults.ps_recovery_timeout) and not is_remote:
        raise UsageError(
            f"--ps_recovery_timeout={limit:g}: goes with --cluster=remote alone, a cluster of this "
            f"machine starts its parameter servers again by itself"
        )


def _check_pace(config: Topics, num_workers: int) -> None:
    """Refuses what a worker's share of the run leaves nothing of."""
    period = 0 if config.learning.tau else config.learning.target_update_period
    at_once = scaling.sequential_per_version(config, num_workers)
    if 0 < period < at_once:
        raise UsageError(
            f"--target_update_period={period}: {at_once:g} sequential updates arrive at once "
            f"(--local_updates={config.parameter_server.local_updates}), and the target would be "
            f"copied after those; say {math.ceil(at_once)} or more, or fewer --local_updates"
        )
    config.resets.check_pace(at_once, config.parameter_server.local_updates)
    envs = scaling.envs_of_each(config, config.topology.acting(num_workers))
    config.topology.check_environments(envs)
    if config.exploration.epsilon_ladder and config.topology.rungs(0, envs).of_all == 1:
        raise UsageError(
            "--epsilon_ladder=true: has no effect where a worker has one environment; say a larger "
            "--num_envs_per_worker, or leave it out"
        )


def check_network(network: Network, value: Value) -> None:
    """Refuses a network that is not known, or a user's with parts of the others.

    Raises:
        UsageError: with the flags and what to do.
    """
    name = network.network
    if name in NETWORKS:
        return
    if ":" not in name:
        raise UsageError(
            f"--network={name}: unknown: use {', '.join(NETWORKS)}, or your own as "
            f"package.module:function"
        )
    parts = {
        "--dueling": network.dueling,
        "--noisy": network.noisy,
        "--recurrent_size": network.recurrent_size,
        "--value_distribution=iqn": value.value_distribution == "iqn",
    }
    flags = [flag for flag, wanted in parts.items() if wanted]
    if flags:
        raise UsageError(
            f"--network={name}: cannot be combined with {', '.join(flags)}, which is built into "
            f"the other networks: leave it out, or build it yourself"
        )


def _check_schedules(config: Topics) -> None:
    learning, explore = config.learning, config.exploration
    ends = {
        "learning_rate": (learning.learning_rate_schedule, learning.learning_rate),
        "learning_rate_end": (learning.learning_rate_schedule, learning.learning_rate_end),
        "epsilon_start": (explore.epsilon_schedule, explore.epsilon_start),
        "epsilon_end": (explore.epsilon_schedule, explore.epsilon_end),
    }
    for name, (schedule, value) in ends.items():
        if schedule == "exponential" and value <= 0:
            raise UsageError(
                f"--{name}={value}: must be above 0 with an exponential schedule, which never "
                f"reaches 0"
            )


def _check_values(config: Topics) -> None:
    value = config.value
    distribution = value.value_distribution
    if value.v_min >= value.v_max:
        raise UsageError(f"--v_min={value.v_min}: must be less than --v_max={value.v_max}")
    if value.loss != "huber" and distribution != "none":
        raise UsageError(
            f"--loss={value.loss}: --value_distribution={distribution} has a loss of its own; "
            f"leave it out"
        )
    if value.value_rescaling and distribution not in EXPECTED:
        raise UsageError(
            f"--value_rescaling=true: is for expected returns, not for "
            f"--value_distribution={distribution}; leave one of them out"
        )
    if value.normalize_returns == "on" and distribution == "c51":
        raise UsageError(
            "--normalize_returns=on: c51's atoms (--v_min, --v_max) say what size values have; "
            "use another --value_distribution, or leave it out"
        )
    wanted = {
        "normalize_observations=on": config.network.normalize_observations == "on",
        "normalize_returns=on": value.normalize_returns == "on",
    }
    dtype = config.parameter_server.pull_wire_dtype
    for flag, is_wanted in wanted.items():
        if is_wanted and config.learning.optimizer == "adamw":
            raise UsageError(
                f"--optimizer=adamw: would shrink the means of --{flag}, which are among the "
                f"parameters; use adam, or leave it out"
            )
        if is_wanted and dtype != "float32":
            raise UsageError(
                f"--pull_wire_dtype={dtype}: would round the means of --{flag}, which travel "
                f"with the parameters; leave one of them out"
            )
    if value.munchausen and distribution == "c51":
        raise UsageError(
            "--munchausen=true: adds another number to each action's return, for which c51 has no "
            "common atoms; use --value_distribution=none, qr_dqn or iqn"
        )
    if value.munchausen and value.double_dqn:
        raise UsageError(
            "--double_dqn=true: has no effect with --munchausen, which bootstraps from all "
            "actions; say --double_dqn=false"
        )
    if value.munchausen and value.value_rescaling:
        raise UsageError(
            "--value_rescaling=true: munchausen's temperature and clip are in units of the return "
            "itself; leave one of them out"
        )


def _check_target(config: Topics) -> None:
    if config.learning.target_update_period:
        return
    if config.value.double_dqn:
        raise UsageError(
            "--double_dqn=true: without a target network (--target_update_period=0) there is one "
            "network only; say --double_dqn=false"
        )


def _check_rollout(config: Topics) -> None:
    """PQN learns by λ-returns of the online network, from steps it has just made."""
    value, learning, replay = config.value, config.learning, config.replay
    unmet = {
        f"--target_update_period={learning.target_update_period}": (
            learning.target_update_period == 0,
            "it has no target network: say --target_update_period=0",
        ),
        f"--n_step={learning.n_step}": (
            learning.n_step == 1,
            "its returns are λ-returns: say --n_step=1",
        ),
        f"--value_distribution={value.value_distribution}": (
            value.value_distribution == "none",
            "it learns expected returns: leave it out",
        ),
        "--munchausen=true": (not value.munchausen, "it has no target policy: leave it out"),
        "--value_rescaling=true": (not value.value_rescaling, "leave it out"),
        f"--replay_memory={replay.replay_memory}": (
            not replay.replay_memory,
            "it keeps nothing: leave it out",
        ),
        f"--replay_compression={replay.replay_compression}": (
            replay.replay_compression == "none",
            "it keeps nothing: leave it out",
        ),
        "--replay_files=true": (not replay.replay_files, "it keeps nothing: leave it out"),
    }
    if config.parameter_server.overlap == "on" and not value.learns_policy:
        raise UsageError(
            "--overlap=on: does not go with --replay=rollout, which learns from the steps just made"
        )
    for flag, (is_met, what_to_do) in unmet.items():
        if not is_met:
            raise UsageError(f"{flag}: does not go with --replay=rollout; {what_to_do}")
    period, updates = config.parameter_server.update_period, config.parameter_server.local_updates
    if learning.batch_size % period:
        raise UsageError(
            f"--batch_size={learning.batch_size}: with --replay=rollout, a multiple of "
            f"--update_period={period:g} (each step is learned from batch_size / update_period "
            f"times)"
        )
    env_steps, envs = updates * period, config.environment.envs_per_worker
    if env_steps % envs:
        raise UsageError(
            f"--local_updates={updates} times --update_period={period:g} is {env_steps:g} "
            f"environment steps a rollout, which {envs} environments do not divide: change one of "
            f"the three so that they do"
        )
    steps, units = int(env_steps // envs), config.network.recurrent_size
    if units and learning.batch_size % steps:
        raise UsageError(
            f"--batch_size={learning.batch_size}: with --replay=rollout and "
            f"--recurrent_size={units}, a multiple of the {steps} steps that each of {envs} "
            f"environments makes in a rollout (--local_updates={updates} times "
            f"--update_period={period:g}), for these are learned from as a whole"
        )


def _check_replay(config: Topics) -> None:
    replay, updates = config.replay, config.parameter_server.local_updates
    if replay.replay == "recent" and updates < FEWEST_FOR_RECENT:
        raise UsageError(
            f"--local_updates={updates}: with --replay=recent, {FEWEST_FOR_RECENT} or more: its "
            f"window narrows from minibatch to minibatch of a push"
        )
    if replay.replay_compression != "none" and not replay.replay_memory:
        raise UsageError(
            f"--replay_compression={replay.replay_compression}: how many transitions fit is not "
            f"known beforehand, so say how much memory they may use, like --replay_memory=2GiB"
        )
    transitions = capacity.of(replay)
    if transitions is not None:  # else what fits is known with the environment: `replay.plan`
        capacity.check(config, transitions, f"--replay_capacity={transitions}")
