"""Combinations of options that cannot work, each refused with one line."""

import json
import math
from typing import Any

from ps_dqn.errors import UsageError


def check(config: Any) -> None:
    """Refuses a `Config` whose options do not go together.

    Raises:
        UsageError: with the flags, their values and what to do.
    """
    _check_env_kwargs(config.environment.env_kwargs)
    _check_rhythm(config)
    _check_replay(config)
    _check_aggregation(config)


def check_workers(config: Any, num_workers: int) -> None:
    """Refuses a `Config` that does not go with this many workers.

    Raises:
        UsageError: with the flags, their values and what to do.
    """
    backup = config.parameter_server.backup_workers
    if backup >= num_workers:
        raise UsageError(
            f"--backup_workers={backup}: must be less than --num_workers={num_workers}, a round "
            f"waits for the others"
        )


def _check_aggregation(config: Any) -> None:
    shape = config.parameter_server
    where = {
        "backup_workers": (shape.aggregation == "sync", "--aggregation=sync"),
        "max_staleness": (shape.aggregation == "async", "--aggregation=async"),
        "staleness_decay": (shape.aggregation == "async", "--aggregation=async"),
        "staleness_cutoff": (shape.aggregation == "async", "--aggregation=async"),
        "outer_learning_rate": (shape.local_updates > 1, "--local_updates above 1"),
        "outer_momentum": (shape.local_updates > 1, "--local_updates above 1"),
    }
    for name, (used, needed) in where.items():
        value = getattr(shape, name)
        # The default is None, or 0 where that does nothing.
        default_is_none = name.startswith(("max_", "outer_"))
        is_set = value is not None if default_is_none else bool(value)
        if is_set and not used:
            raise UsageError(f"--{name}={value}: has no effect without {needed}; leave it out")


def _check_env_kwargs(text: str) -> None:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--env_kwargs={text}: not JSON ({error})") from None
    if not isinstance(parsed, dict):
        raise UsageError(f'--env_kwargs={text}: must be a JSON object, like {{"size": 8}}')


def _check_rhythm(config: Any) -> None:
    shape, envs = config.parameter_server, config.environment.num_envs_per_worker
    env_steps = shape.local_updates * shape.update_period
    if env_steps % envs:
        raise UsageError(
            f"--local_updates={shape.local_updates} times --update_period={shape.update_period} "
            f"is {env_steps} environment steps a push, which --num_envs_per_worker={envs} does "
            f"not divide: change one of the three so that it does"
        )


def _check_replay(config: Any) -> None:
    replay, envs = config.replay, config.environment.num_envs_per_worker
    if replay.min_replay_size > replay.replay_capacity:
        raise UsageError(
            f"--min_replay_size={replay.min_replay_size}: must not exceed "
            f"--replay_capacity={replay.replay_capacity}"
        )
    # Each environment's ring holds the n-step window, the row after it and room to write.
    n_step = config.learning.n_step
    least = envs * (n_step + 2)
    if replay.replay_capacity < least:
        raise UsageError(
            f"--replay_capacity={replay.replay_capacity}: {envs} environments with "
            f"--n_step={n_step} need {least} or more"
        )
    # The newest n rows of an environment cannot be sampled, so a full ring offers this many.
    most = envs * (math.ceil(replay.replay_capacity / envs) - n_step)
    if replay.min_replay_size > most:
        raise UsageError(
            f"--min_replay_size={replay.min_replay_size}: {envs} environments with "
            f"--replay_capacity={replay.replay_capacity} and --n_step={n_step} offer {most} at most"
        )
