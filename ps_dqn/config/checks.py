"""Combinations of options that cannot work, each refused with one line."""

import dataclasses
import json
import math
from typing import Any

from ps_dqn.config.agent import NETWORKS
from ps_dqn.config.replay import REPLAY_CAPACITY
from ps_dqn.errors import UsageError

# Updates of a push in which the window of replay=recent can narrow in steps worth the name.
FEWEST_FOR_RECENT = 8


def check(config: Any) -> None:
    """Refuses a `Config` whose options do not go together.

    Raises:
        UsageError: with the flags, their values and what to do.
    """
    _check_needs(config)
    _check_env_kwargs(config.environment.env_kwargs)
    check_network(config.network, config.value)
    _check_outer_step(config.parameter_server)
    _check_schedules(config)
    _check_values(config)
    _check_target(config)
    _check_rhythm(config)
    if config.replay.replay == "rollout":
        _check_rollout(config)
    else:
        _check_replay(config)


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


def _check_needs(config: Any) -> None:
    """Refuses what has no effect: an option that was set, without the one it belongs to."""
    groups = [getattr(config, field.name) for field in dataclasses.fields(config)]
    options = [(group, field) for group in groups for field in dataclasses.fields(group)]
    defaults = {field.name: field.default for _, field in options}
    values = {field.name: getattr(group, field.name) for group, field in options}
    for _, field in options:
        if values[field.name] == field.default:
            continue
        for other, wanted in field.metadata["needs"].items():
            used = values[other] in wanted if wanted else values[other] != defaults[other]
            if not used:
                text = f"--{other}" + "".join(
                    f"{' or ' if i else '='}{_shown(each)}" for i, each in enumerate(wanted)
                )
                raise UsageError(
                    f"--{field.name}={_shown(values[field.name])}: has no effect without {text}; "
                    f"leave it out (its default is {_shown(field.default)})"
                )


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_network(network: Any, value: Any) -> None:
    """Refuses a network that is not known, or a user's with parts of the others.

    Args:
        network: `config.Network`.
        value: `config.Value`.

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
    asked = {
        "--dueling": network.dueling,
        "--noisy": network.noisy,
        "--recurrent_size": network.recurrent_size,
        "--value_distribution=iqn": value.value_distribution == "iqn",
    }
    flags = [flag for flag, wanted in asked.items() if wanted]
    if flags:
        raise UsageError(
            f"--network={name}: cannot be combined with {', '.join(flags)}, which is built into "
            f"the other networks: leave it out, or build it yourself"
        )


def _check_outer_step(shape: Any) -> None:
    for name in ("outer_learning_rate", "outer_momentum"):
        value = getattr(shape, name)
        if value is not None and shape.local_updates == 1:
            raise UsageError(
                f"--{name}={value}: has no effect without --local_updates above 1; leave it out"
            )


def _check_env_kwargs(text: str) -> None:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--env_kwargs={text}: not JSON ({error})") from None
    if not isinstance(parsed, dict):
        raise UsageError(f'--env_kwargs={text}: must be a JSON object, like {{"size": 8}}')


def _check_schedules(config: Any) -> None:
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


def _check_values(config: Any) -> None:
    value = config.value
    distribution = value.value_distribution
    if value.v_min >= value.v_max:
        raise UsageError(f"--v_min={value.v_min}: must be less than --v_max={value.v_max}")
    if value.loss != "huber" and distribution != "none":
        raise UsageError(
            f"--loss={value.loss}: --value_distribution={distribution} has a loss of its own; "
            f"leave it out"
        )
    if value.value_rescaling and distribution != "none":
        raise UsageError(
            f"--value_rescaling=true: is for expected returns, not for "
            f"--value_distribution={distribution}; leave one of them out"
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


def _check_target(config: Any) -> None:
    if config.learning.target_update_period:
        return
    if config.value.double_dqn:
        raise UsageError(
            "--double_dqn=true: without a target network (--target_update_period=0) there is one "
            "network only; say --double_dqn=false"
        )


def _check_rhythm(config: Any) -> None:
    shape, envs = config.parameter_server, config.environment.num_envs_per_worker
    env_steps = shape.local_updates * shape.update_period
    if env_steps % envs:
        raise UsageError(
            f"--local_updates={shape.local_updates} times --update_period={shape.update_period} "
            f"is {env_steps} environment steps a push, which --num_envs_per_worker={envs} does "
            f"not divide: change one of the three so that it does"
        )


def _check_rollout(config: Any) -> None:
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
        f"--recurrent_size={config.network.recurrent_size}": (
            not config.network.recurrent_size,
            "recurrent networks learn from replayed sequences: leave it out",
        ),
        f"--replay_capacity={replay.replay_capacity}": (
            replay.replay_capacity is None,
            "it keeps nothing: leave it out",
        ),
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
    for flag, (is_met, what_to_do) in unmet.items():
        if not is_met:
            raise UsageError(f"{flag}: does not go with --replay=rollout; {what_to_do}")
    period = config.parameter_server.update_period
    if learning.batch_size % period:
        raise UsageError(
            f"--batch_size={learning.batch_size}: with --replay=rollout, a multiple of "
            f"--update_period={period} (each step is learned from batch_size / update_period times)"
        )


def _check_replay(config: Any) -> None:
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
    if replay.replay_memory and replay.replay_capacity is None:
        return  # what fits is known with the environment: see `replay_plan`
    capacity = REPLAY_CAPACITY if replay.replay_capacity is None else replay.replay_capacity
    check_capacity(config, capacity, f"--replay_capacity={capacity}")


def check_capacity(config: Any, capacity: int, flag: str) -> None:
    """Refuses a replay too small to learn from.

    Args:
        config: the experiment.
        capacity: of a worker's replay (transitions).
        flag: what says so, for people.

    Raises:
        UsageError: with the flags, their values and what to do.
    """
    replay, envs = config.replay, config.environment.num_envs_per_worker
    if replay.min_replay_size > capacity:
        raise UsageError(f"--min_replay_size={replay.min_replay_size}: must not exceed {flag}")
    # Each environment's ring holds what a draw spans, the row after it and room to write.
    span = rows_spanned(config)
    least = envs * (span + 2)
    if capacity < least:
        raise UsageError(
            f"{flag}: {envs} environments with {_span_flags(config)} need {least} or more"
        )
    # The newest rows of an environment cannot be drawn, so a full ring offers this many.
    most = envs * (math.ceil(capacity / envs) - span)
    if replay.min_replay_size > most:
        raise UsageError(
            f"--min_replay_size={replay.min_replay_size}: {envs} environments with "
            f"{flag} and {_span_flags(config)} offer {most} at most"
        )


def rows_spanned(config: Any) -> int:
    """Rows beside its first one that a draw from replay needs."""
    replay, is_recurrent = config.replay, config.network.recurrent_size > 0
    sequence = 0
    if is_recurrent:
        # A sequence begins where the period divides, so some rows may be before the first one.
        sequence = replay.burn_in + replay.sequence_length + replay.sequence_period - 2
    stack = config.environment.frame_stack - 1
    return sequence + config.learning.n_step + stack


def _span_flags(config: Any) -> str:
    text = f"--n_step={config.learning.n_step}"
    if config.environment.frame_stack > 1:
        text += f", --frame_stack={config.environment.frame_stack}"
    if config.network.recurrent_size:
        text += (
            f", --burn_in={config.replay.burn_in}, --sequence_length="
            f"{config.replay.sequence_length}, --sequence_period={config.replay.sequence_period}"
        )
    return text
