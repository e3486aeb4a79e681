"""Demonstrations of an experiment, read before any task starts: `--demonstrations`."""

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import budget, demonstration_files, demonstrations


def read(config: Config, environment: EnvironmentSpec, num_workers: int) -> list[str]:
    """Refuses what the workers of a machine could not learn from.

    Args:
        config: the experiment.
        environment: what is acted in.
        num_workers: on one machine, each of which reads them all.

    Returns:
        What people should know.

    Raises:
        UsageError: with the flag, its value and what to do.
    """
    options, bins = config.demonstrations, config.environment.action_bins
    if not options.demonstrations:
        return []
    steps = demonstration_files.read(options.demonstrations, environment, bins)
    if config.environment.frame_stack > 1:
        demonstrations.check_stacks(steps, config.environment.frame_stack)
    # What is read and what is kept of it are there at the same time.
    read = [steps.observations, steps.next_observations, steps.observations]
    each, memory = sum(array.nbytes for array in read if array is not None), budget.available()
    wanted = num_workers * each
    workers = "1 worker" if num_workers == 1 else f"{num_workers} workers"
    if wanted > memory.nbytes:
        raise UsageError(
            f"--demonstrations={options.demonstrations}: its observations take "
            f"{budget.show(wanted)} while {workers} read them, and there are "
            f"{budget.show(memory.nbytes)} {memory.what}: keep fewer of them"
        )
    share = f"{options.demonstration_share:.0%} of each minibatch are of them"
    how = "they alone are learned from (--offline)" if options.offline else share
    said = f"demonstrations: {demonstrations.describe(steps)}; {how}"
    return [said, *demonstrations.describe_moved(steps, bins)]
