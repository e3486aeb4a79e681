"""What an experiment names that has to be here: packages, and modules of a user's own."""

from ps_dqn import user_code
from ps_dqn.config import Config
from ps_dqn.environments import rendering
from ps_dqn.telemetry import tracking


def check(config: Config) -> None:
    """Refuses what is not here, before any task starts; imports none of it.

    Raises:
        UsageError: with the flag, its value and what to do.
    """
    tracking.check(config.run.track)
    if config.run.video_period:
        rendering.require_packages(f"--video_period={config.run.video_period}")
    network = config.network.network
    module, colon, _ = network.partition(":")
    if colon:
        user_code.find_module(f"--network={network}", module)
