"""What the runs of a sweep act in: looked at before they begin, as each of them would."""

import warnings

from ps_dqn.config import Config, Demonstrations, Environment
from ps_dqn.coordinator.checks import demonstrated, first_look, named, observations
from ps_dqn.environments import EnvironmentSpec


class Looks:
    """Looks at each environment and each demonstrations once, however many runs they are for."""

    def __init__(self) -> None:
        """Has seen none."""
        # Whether first steps may fail depends on the overlap.
        self._seen: dict[tuple[Environment, str], EnvironmentSpec] = {}
        self._read: set[tuple[Environment, Demonstrations, int]] = set()

    def check(self, config: Config, workers: int) -> None:
        """Refuses a run that could not act in its environment, or not with what it names.

        Args:
            config: of each of its workers.
            workers: that it has.

        Raises:
            UsageError: with the flag, its value and what to do.
        """
        named.check(config)
        which = config.environment, config.parameter_server.overlap
        if which not in self._seen:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # each run keeps them in its own log
                _, self._seen[which] = first_look.at_environment(config)
        observations.check(config, self._seen[which])
        read = config.environment, config.demonstrations, workers
        if read not in self._read:
            demonstrated.read(config, self._seen[which], workers)
            self._read.add(read)
