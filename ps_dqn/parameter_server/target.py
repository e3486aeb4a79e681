"""How the target follows the online parameters, on the parameter servers where both are."""

from ps_dqn.config import Config


class TargetRule:
    """Copies every `target_update_period` updates, or moves by `tau` with every version."""

    def __init__(self, config: Config):
        learning = config.learning
        self._period = 0 if learning.tau else learning.target_update_period
        # Of the way to the online parameters, with every version; one version is that many updates.
        self.share = 1.0 - (1.0 - learning.tau) ** config.parameter_server.local_updates

    def is_due(self, updates_before: int, updates_after: int) -> bool:
        """Whether a version that makes so many updates copies the online parameters.

        Crossed, not equal: a push may jump over the exact number.
        """
        if not self._period:
            return False
        return updates_after // self._period > updates_before // self._period
