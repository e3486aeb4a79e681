"""A run that goes on, whose environment may be another one by now."""

import dataclasses
import pathlib

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, alike, interface
from ps_dqn.run import directory


def check(folder: pathlib.Path, config: Config, environment: EnvironmentSpec) -> None:
    """Refuses what the parameters of the run in a folder do not fit.

    Args:
        folder: of the run, or of none yet.
        config: the experiment that it is to go on with.
        environment: what is acted in.

    Raises:
        UsageError: with what the run has and what the environment has.
    """
    written = interface.read(folder) if directory.has_checkpoint(folder) else None
    if written is not None:
        # Learning may go on with masks or without them.
        training = dataclasses.replace(written.spec, has_masks=environment.has_masks)
        alike.check_again(config.environment, environment, training)
