"""Options about observations of some kind, refused where the environment has none of it."""

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, images
from ps_dqn.errors import UsageError


def check(config: Config, environment: EnvironmentSpec) -> None:
    """Refuses what would have no effect, before any task starts.

    Args:
        config: the experiment.
        environment: what is acted in.

    Raises:
        UsageError: with the flag, what observations are and what to do.
    """
    images.check(config.network.network, environment)
    seen = environment.describe_observation()
    if config.network.normalize_observations == "on" and not environment.quantities_of:
        raise UsageError(
            f"--normalize_observations=on: has no effect, the observations have no quantities "
            f"({seen}): leave it out"
        )
    shift = config.learning.random_shift
    if not shift:
        return
    if environment.image_axes is None:
        raise UsageError(
            f"--random_shift={shift}: is for images, height × width × channels, or stacks of "
            f"them, and observations here are {seen}: leave it out"
        )
    height, width = (environment.observation_shape[axis] for axis in environment.image_axes)
    if shift >= min(height, width):
        raise UsageError(
            f"--random_shift={shift}: would shift images of {height}×{width} out of sight; say a "
            f"tenth of that or less"
        )
