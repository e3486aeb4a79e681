"""What became of a run in this process, over all its connections."""

import dataclasses
import math
from typing import Any

from ps_dqn.coordinator.recovery import Recovered
from ps_dqn.state import Counters


@dataclasses.dataclass
class History:
    """Counts connections that were lost and made again, and what they cost."""

    seconds_before: float = 0.0  # of training, in earlier processes
    start_seconds: float = math.nan  # from the command to the first closure
    recoveries: int = 0
    pushes_again: int = 0
    updates_lost: int = 0
    began_at: int = 0  # environment steps, where the present connection began
    heard: Counters | None = None  # of, when the last connection was lost

    def begins(self, seconds: float) -> None:
        """Training begins, for the first time or again, so long after the command (seconds)."""
        if math.isnan(self.start_seconds):
            self.start_seconds = seconds
        else:
            self.recoveries += 1

    def lost(self, counters: Counters) -> None:
        """The connection is lost; where the run was when it was heard of last."""
        self.heard = counters

    def recovered(self, pushes: Recovered, counters: Counters) -> int:
        """What servers had lost was pushed again.

        Args:
            pushes: which.
            counters: after that.

        Returns:
            Updates that had been heard of, and are lost all the same.
        """
        self.began_at = counters.env_steps
        self.pushes_again += pushes.again
        lost = self.heard.updates - counters.updates if self.heard is not None else 0
        lost = int(lost) if lost > 0 else 0  # not a number where nothing was heard of yet
        self.updates_lost += lost
        self.heard = None
        return lost

    def summary(self, training_seconds: float, total_seconds: float) -> dict[str, Any]:
        """What `summary.json` says of it.

        Args:
            training_seconds: of the run, earlier processes included.
            total_seconds: from the command until now.

        Returns:
            `goodput` is the share of the time, from the first closure on, in which there was a
            connection to train on.
        """
        trained = training_seconds - self.seconds_before
        recovering = max(total_seconds - self.start_seconds - trained, 0.0)
        return {
            "recoveries": self.recoveries,
            "recovery_seconds": round(recovering if self.recoveries else 0.0, 3),
            "pushes_again": self.pushes_again,
            "updates_lost": self.updates_lost,
            "goodput": trained / (trained + recovering) if self.recoveries else 1.0,
        }
