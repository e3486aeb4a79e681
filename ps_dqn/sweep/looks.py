"""What the runs of a sweep act in: looked at before they begin, as each of them would."""

import warnings

from ps_dqn.config import Config, Environment
from ps_dqn.coordinator.checks import first_look, observations
from ps_dqn.environments import EnvironmentSpec


class Looks:
    """Looks at each environment once, however many runs act in it."""

    def __init__(self) -> None:
        """Has seen none."""
        # Whether first steps may fail depends on the overlap.
        self._seen: dict[tuple[Environment, str], EnvironmentSpec] = {}

    def check(self, config: Config) -> None:
        """Refuses a run that could not act in its environment, or not with its network.

        Raises:
            UsageError: with the flag, its value and what to do.
        """
        which = config.environment, config.parameter_server.overlap
        if which not in self._seen:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # each run keeps them in its own log
                _, self._seen[which] = first_look.at_environment(config)
        observations.check(config, self._seen[which])
