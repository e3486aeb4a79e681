"""Tells people when parameters have begun anew, after which scores fall for a while."""

from collections.abc import Callable

from ps_dqn.config import Resets
from ps_dqn.state import Counters


class ToldResets:
    """Those that people have heard of."""

    def __init__(self, config: Resets, say: Callable[[str], None]):
        """Has heard of none; `say` shows people a line."""
        self._config, self._say = config, say
        self._number: int | None = None  # none is told of before the first counters

    def hear(self, counters: Counters) -> None:
        """Takes where the run is, later each time."""
        number = self._config.number(int(counters.sequential_updates))
        if self._number is not None and number > self._number:
            self._say(
                f"reset {number} (--reset_period={self._config.reset_period}): parameters have "
                f"begun anew in part; scores fall, and rise again"
            )
        self._number = max(number, self._number or 0)
