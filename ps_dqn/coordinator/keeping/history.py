"""What became of a run, over all its connections and the processes that `--restart` started."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ps_dqn.coordinator.supervision.task_failures import FailuresMemory, TaskFailures
from ps_dqn.profiling import timeline
from ps_dqn.state import Counters
from ps_dqn.telemetry.figures import RecoveryFigures

if TYPE_CHECKING:  # TensorFlow is not to be imported yet
    from ps_dqn.coordinator.keeping.recovery import Recovered


class Memory(NamedTuple):
    """A `History` on its way to another process."""

    start_seconds: float
    recoveries: int
    recovery_seconds: float
    pushes_again: int
    updates_lost: int
    heard: Counters | None
    lost_at: float
    failures: FailuresMemory
    instants: dict[str, float]  # of the timeline, on the clock that processes of a machine share


@dataclasses.dataclass
class History:
    """Counts tasks that failed, connections that were lost and made again, and what they cost."""

    start_seconds: float = math.nan  # from the command to the first closure
    recoveries: int = 0
    recovery_seconds: float = 0.0  # of those that have ended
    pushes_again: int = 0
    updates_lost: int = 0
    began_at: int = 0  # environment steps, where the present connection began
    failures: TaskFailures = dataclasses.field(default_factory=TaskFailures)
    heard: Counters | None = None  # of, when the last connection was lost
    lost_at: float = math.nan  # seconds from the command; NaN: there is a connection

    def begins(self, seconds: float) -> None:
        """Training begins, for the first time or again, so long after the command (seconds)."""
        if not self.has_begun:
            self.start_seconds = seconds
        elif self.was_lost:
            self.recoveries += 1
            self.recovery_seconds += seconds - self.lost_at
        self.lost_at = math.nan

    def lost(self, counters: Counters, seconds: float) -> None:
        """The connection is lost.

        Args:
            counters: where the run was when it was heard of last.
            seconds: from the command until now.
        """
        self.heard, self.lost_at = counters, seconds

    @property
    def has_begun(self) -> bool:
        """Whether a closure was ever scheduled since the command."""
        return not math.isnan(self.start_seconds)

    def has_trained(self, env_steps: float) -> bool:
        """Whether anything came of it, where the run has made so many environment steps by now."""
        was_connected = self.recoveries > 0 or self.was_lost
        return self.has_begun and (was_connected or env_steps > self.began_at)

    @property
    def was_lost(self) -> bool:
        """There was a connection, and is none now."""
        return not math.isnan(self.lost_at)

    def memory(self, heard: Counters) -> Memory:
        """What another process is to know, in case that this one is lost.

        Args:
            heard: where the run is.
        """
        return Memory(
            self.start_seconds,
            self.recoveries,
            self.recovery_seconds,
            self.pushes_again,
            self.updates_lost,
            self.heard if self.was_lost else heard,
            self.lost_at,
            self.failures.memory(),
            timeline.instants(),
        )

    def follows(self, memory: Memory | None, lost: float) -> None:
        """Another process trained before this one, and was lost.

        Args:
            memory: its last one; None: it had none.
            lost: when it was lost (seconds from the command).
        """
        self.lost_at = lost
        if memory is None:
            return
        if not math.isnan(memory.lost_at):
            self.lost_at = memory.lost_at
        self.start_seconds, self.heard = memory.start_seconds, memory.heard
        self.recoveries, self.recovery_seconds = memory.recoveries, memory.recovery_seconds
        self.pushes_again, self.updates_lost = memory.pushes_again, memory.updates_lost
        self.failures.remember(memory.failures)
        for name, at in memory.instants.items():
            timeline.instant(name, at)

    def recovered(self, pushes: "Recovered", counters: Counters) -> int:
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

    def figures(self, seconds: float) -> RecoveryFigures:
        """All of it now, so long after the command (seconds); on any thread."""
        recovering, lost_at = self.recovery_seconds, self.lost_at
        if not math.isnan(lost_at):
            recovering += seconds - lost_at
        since_start = seconds - self.start_seconds
        return RecoveryFigures(
            recoveries=self.recoveries,
            recovery_seconds=recovering,
            pushes_again=self.pushes_again,
            updates_lost=self.updates_lost,
            goodput=1.0 - recovering / since_start if recovering else 1.0,
            task_failures=self.failures.rows(),
        )

    def summary(self, seconds: float) -> dict[str, Any]:
        """What `summary.json` says of it, so long after the command (seconds).

        Returns:
            `goodput` is the share of the time, from the first closure on, in which there was a
            connection to train on.
        """
        shown = dataclasses.asdict(self.figures(seconds))
        return {**shown, "recovery_seconds": round(shown["recovery_seconds"], 3)}
