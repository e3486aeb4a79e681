"""How the target follows the online parameters, on the parameter servers where both are."""

from ps_dqn.config import Config


class TargetRule:
    """Copies every `target_update_period` sequential updates, or moves by `tau` with each."""

    def __init__(self, config: Config):
        learning = config.learning
        self._period = 0 if learning.tau else learning.target_update_period
        self._tau = learning.tau

    def share(self, worth: float) -> float:
        """How far a version worth so many sequential updates moves the target."""
        return 1.0 - (1.0 - self._tau) ** worth

    @property
    def is_soft(self) -> bool:
        """Whether it moves a little with every version instead of being copied."""
        return self._tau > 0

    def is_due(self, updates_before: int, updates_after: int) -> bool:
        """Whether a version that makes so many sequential updates copies the online parameters.

        Crossed, not equal: a push may jump over the exact number.
        """
        if not self._period:
            return False
        return updates_after // self._period > updates_before // self._period
