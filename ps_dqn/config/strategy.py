"""What goes with each way of holding the parameters, and what does not."""

import math

from ps_dqn.config import scaling
from ps_dqn.config.faults import Faults
from ps_dqn.config.run import ParameterServer
from ps_dqn.config.topics import Topics
from ps_dqn.errors import UsageError


def check(config: Topics) -> None:
    """Refuses options of pushes that have no effect.

    Raises:
        UsageError: with the flag, its value and what to do.
    """
    options = config.parameter_server
    _check_outer_step(options)
    if not options.has_servers:
        if config.topology.is_shared:
            raise UsageError(
                f"--topology={config.topology.topology}: does not go with --strategy=all_reduce, "
                f"where every worker learns: leave one of them out"
            )
        _check_all_reduce(options, config.faults)


def describe(options: ParameterServer) -> list[str]:
    """What people should know of how workers push."""
    if not options.has_servers:
        return ["workers add up their gradients (--strategy=all_reduce)"]
    if options.is_synchronous:
        return [f"workers push in rounds (--aggregation={options.aggregation})"]
    return []


def _check_outer_step(options: ParameterServer) -> None:
    for name in ("outer_optimizer", "outer_learning_rate", "outer_momentum"):
        value = getattr(options, name)
        if value not in (None, "nesterov") and options.local_updates == 1:
            raise UsageError(
                f"--{name}={value}: has no effect without --local_updates above 1; leave it out"
            )


def _check_all_reduce(options: ParameterServer, faults: Faults) -> None:
    plain = "float32 vectors are added up as they are: leave it out"
    unmet = {
        "local_updates": (
            options.local_updates == 1,
            "the gradient of each update is added up: say --local_updates=1",
        ),
        "aggregation": (
            options.aggregation in ("auto", "sync"),
            "what workers add up is the mean of a round: leave it out",
        ),
        "backup_workers": (
            options.backup_workers == 0,
            "a sum is of all workers that are there: leave it out",
        ),
        "max_staleness": (
            options.max_staleness is None,
            "no gradient is older than the others: leave it out",
        ),
        "staleness_decay": (
            options.staleness_decay == 0,
            "no gradient is older than the others: leave it out",
        ),
        "staleness_cutoff": (
            options.staleness_cutoff == 0,
            "no gradient is older than the others: leave it out",
        ),
        "pull_wire_dtype": (options.pull_wire_dtype == "float32", plain),
        "push_wire_dtype": (options.push_wire_dtype == "float32", plain),
        "push_top_k": (options.push_top_k == 1.0, plain),
        "ps_timeout": (
            faults.ps_timeout == Faults().ps_timeout,
            "there are no parameter servers: leave it out (--worker_timeout is for workers)",
        ),
    }
    for name, (is_met, what_to_do) in unmet.items():
        if not is_met:
            value = getattr(options, name, getattr(faults, name, None))
            raise UsageError(
                f"--{name}={value}: does not go with --strategy=all_reduce; {what_to_do}"
            )


def check_trimming(options: ParameterServer, size: int) -> None:
    """Refuses a trimmed mean of which nothing is trimmed, of rounds of so many pushes.

    Raises:
        UsageError: with the flag and what to do.
    """
    if options.aggregation != "trimmed_mean":
        return
    if size < 3:
        raise UsageError(
            f"--aggregation=trimmed_mean: has no effect on rounds of {size} pushes, of which one "
            f"that is wrong cannot be told from the other; it needs three workers or more"
        )
    if not scaling.num_trimmed(options.trim_fraction, size):
        raise UsageError(
            f"--trim_fraction={options.trim_fraction:g}: takes nothing off rounds of {size} "
            f"pushes; say {math.ceil(100 / size) / 100:g} or more"
        )
