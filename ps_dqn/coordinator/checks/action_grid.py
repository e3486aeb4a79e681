"""Continuous actions become a grid, of which a number of actions alone says too little."""

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, listed


def notes(config: Config, environment: EnvironmentSpec) -> list[str]:
    """What people should know of a grid, where actions are chosen from one."""
    bins = config.environment.action_bins
    if not bins or environment.own is None:
        return []
    counts = listed.own_actions(environment.own.action, bins).counts
    few, many = min(counts), max(counts)
    values = f"{few}" if few == many else f"{few} to {many}"  # whole numbers may be fewer
    numbers = "the action's number"
    if len(counts) > 1:
        numbers = f"each of the action's {len(counts)} numbers"
    return [
        f"--action_bins={bins}: {numbers} has {values} values, its bounds among them, and none "
        f"between them can be chosen"
    ]
