"""How a run follows the number of its workers: one rule, so that more of them pay.

What the options say is of the run, as one worker alone would make it, and N workers share it out:
environments, replay and what it must hold at first. Each keeps 1/N of the newest experience, so old
experience leaves it as soon as one worker's would, and each episode is as long after so many
environment steps of all. (With 64 environments and 50,000 transitions for each of 8 workers, a run
learns from its first random actions for 400,000 steps, and has seen 80 steps of an episode when one
worker has solved CartPole.)

Workers learn side by side, each from parameters that all of them move. N pushes of as many workers,
each counting 1/N, take the parameters as far as one worker's push would alone, on the mean of N
times as many minibatches. So updates that are made side by side are one step of the way, and what
counts updates (the period of collecting, the target's, the moving average's horizon) counts steps
of the way: *sequential updates*. A worker makes an update for each `update_period` environment
steps of all workers, not of its own; otherwise N workers would go 1/N of the way with the same
experience, and take N times as much of it to learn the same.

N is the number of workers that push, as the parameter servers see it: it falls when some are lost
and rises when they are back.
"""

import dataclasses
import math
from typing import TypeVar

from ps_dqn.config import capacity
from ps_dqn.config.run import (
    CLOSURE_SECONDS,
    DISPATCH_SHARE,
    FIRST_PUSHES,
    MOST_PUSHES,
    OUTER_ADAM_STEP,
    OUTER_MOMENTUM,
    ParameterServer,
)
from ps_dqn.config.topics import Topics

C = TypeVar("C", bound=Topics)


def num_trimmed(fraction: float, size: int) -> int:
    """Pushes of a round of this size that do not count at either end; one is always left."""
    return min(int(fraction * size), (size - 1) // 2)


def share_out(config: C, num_workers: int) -> C:
    """What is left of a run to each of so many workers, and how they push.

    With rollouts nothing is shared out: each worker makes its own and learns from it. With a replay
    of their own tasks, environments are shared out among those that act.
    """
    acting, pushing = config.topology.acting(num_workers), config.topology.pushing(num_workers)
    options = how_they_push(config, pushing)
    config = dataclasses.replace(config, parameter_server=options)
    environment, replay = config.environment, config.replay
    if num_workers == 1 or replay.replay == "rollout":
        return config
    if environment.num_envs_per_worker is None:
        num_envs = envs_of_each(config, acting)
        environment = dataclasses.replace(environment, num_envs=num_envs)
    if config.topology.is_shared:  # so is the replay, of which replay servers have their shares
        return dataclasses.replace(config, environment=environment)
    transitions = capacity.of(replay)
    if transitions is not None:
        share = math.ceil(transitions / num_workers)
        replay = dataclasses.replace(replay, replay_capacity=share)
    least = math.ceil(replay.min_replay_size / num_workers)
    replay = dataclasses.replace(replay, min_replay_size=least)
    if replay.replay == "recent":
        smallest = math.ceil(replay.recency_min_size / num_workers)
        replay = dataclasses.replace(replay, recency_min_size=smallest)
    return dataclasses.replace(config, environment=environment, replay=replay)


def envs_of_each(config: Topics, num_workers: int) -> int:
    """Environments of each of so many workers."""
    environment = config.environment
    if environment.num_envs_per_worker is not None or config.replay.replay == "rollout":
        return environment.envs_per_worker
    return math.ceil(environment.num_envs / num_workers)


def how_they_push(config: Topics, num_workers: int) -> ParameterServer:
    """The options of pushes, with what is left to the number of workers decided."""
    options = config.parameter_server
    if not options.has_servers:
        return dataclasses.replace(options, aggregation="sync")
    if options.aggregation == "auto" and num_workers > 1:
        return dataclasses.replace(options, aggregation=_aggregation(config))
    return options


def _aggregation(config: Topics) -> str:
    """What `auto` is for several workers.

    Rounds learn from less experience: no change is computed on parameters that others have moved
    meanwhile (docs/scaling.md). Nobody waits where each gradient is a step of its own, nor with
    rollouts, which would get old; nor where an option says how old a push may be.
    """
    options = config.parameter_server
    if options.backup_workers:
        return "sync"
    if config.topology.is_shared:
        return "async"
    judges_age = (
        options.max_staleness is not None or options.staleness_decay or options.staleness_cutoff
    )
    is_alone = options.local_updates == 1 or config.replay.replay == "rollout"
    return "async" if judges_age or is_alone else "sync"


def applies_gradients(options: ParameterServer) -> bool:
    """Whether each push is a gradient that the servers' optimizer makes a step of its own of."""
    return options.local_updates == 1 and not options.is_synchronous


def momentum(options: ParameterServer, workers: int) -> float:
    """Nesterov momentum of pushed changes.

    Pushes that come while a worker computes act as a momentum of 1 - 1/N (Mitliagkas et al. 2016,
    arXiv:1605.09774), so as much less is added where workers do not wait for each other.
    """
    if options.outer_momentum is not None:
        return options.outer_momentum
    implicit = 0.0 if options.is_synchronous else 1.0 - 1.0 / workers
    return max(OUTER_MOMENTUM - implicit, 0.0)


def step_size(options: ParameterServer, workers: int) -> float:
    """Of pushed changes; momentum multiplies a lasting one by 1 / (1 - momentum).

    In rounds N^(1/3) times as long. What workers learn side by side is mostly the noise of their
    minibatches, so their changes are nearly at right angles to each other, and the mean of N is
    some 1/√N as long as each of them. With √N a round would go as far as one worker's push; where
    learning rates are high already, that is too far (docs/scaling.md).
    """
    if options.outer_learning_rate is not None:
        return options.outer_learning_rate
    if options.outer_optimizer == "adam":
        return OUTER_ADAM_STEP
    lasting = workers ** (1 / 3) if options.is_synchronous else 1.0
    is_nesterov = options.outer_optimizer == "nesterov"
    return lasting * (1.0 - momentum(options, workers)) if is_nesterov else lasting


def share(options: ParameterServer, workers: int) -> float:
    """What a push counts: 1/N; 1 where it is a step of its own or a round's mean, or is said."""
    is_said = options.outer_learning_rate is not None
    if applies_gradients(options) or options.is_synchronous or is_said:
        return 1.0
    return 1.0 / workers


def sequential_updates(options: ParameterServer, workers: int) -> float:
    """Steps of the way that one worker's push brings.

    Args:
        options: how workers push.
        workers: N; in rounds, those whose pushes make one.
    """
    return 1.0 if applies_gradients(options) else options.local_updates / workers


def sequential_per_version(config: Topics, workers: int) -> float:
    """Steps of the way that the parameters make at once: of a round, or of one push.

    Args:
        config: the run's.
        workers: N, all of them.
    """
    options = how_they_push(config, workers)
    pushes = workers if options.is_synchronous else 1
    return pushes * sequential_updates(options, workers)


def pushes_per_closure(
    options: ParameterServer, workers: int, seconds: float, dispatch: float = 0.0
) -> int:
    """How many pushes a training closure makes: enough that its dispatch costs little.

    Args:
        options: how workers push.
        workers: N; one worker's closures are all alike, as its run is to be the same each time.
        seconds: of a worker's own work for a push; NaN where that is not known.
        dispatch: what a worker waits from one closure to the next (seconds).
    """
    if options.pushes_per_closure is not None:
        return options.pushes_per_closure
    if workers == 1 or math.isnan(seconds):
        return FIRST_PUSHES
    wanted = max(CLOSURE_SECONDS, dispatch / DISPATCH_SHARE)
    if seconds * MOST_PUSHES <= wanted:
        return MOST_PUSHES
    return math.ceil(wanted / seconds)


def env_steps_per_push(config: Topics, workers: int) -> float:
    """Environment steps that a worker collects for each of its pushes, resets counted as steps.

    A rollout is learned from once, so with it every worker makes the updates of its own steps.
    Actors together make those of a learner's push; how far they may be ahead is for the parameter
    servers to say (`parameter_server.pacing`).
    """
    options = config.parameter_server
    if config.topology.is_shared:
        return options.update_period * options.local_updates / config.topology.num_actors
    if config.replay.replay == "rollout":
        return options.update_period * options.local_updates
    return options.update_period * sequential_updates(options, workers)
