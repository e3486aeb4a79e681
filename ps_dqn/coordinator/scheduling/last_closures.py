"""What is still heard of when training is over: closures on their way, and the final evaluation."""

import time
from collections.abc import Callable

from ps_dqn.coordinator.evaluating.greedy_play import Evaluations
from ps_dqn.coordinator.scheduling.dispatch import Schedule
from ps_dqn.coordinator.scheduling.last_waits import LastWaits
from ps_dqn.telemetry.observer import Observer

_KINDS = ("train", "freeze", "evaluation")


class LastClosures:
    """Of one connection."""

    def __init__(
        self,
        schedule: Schedule,
        evaluations: Evaluations,
        waits: LastWaits,
        observer: Observer,
        hear: Callable[[], None],
    ):
        """Waits for none yet.

        Args:
            schedule: of the closures.
            evaluations: of the run.
            waits: how long each wait is.
            observer: tells people.
            hear: waits a moment for what has ended, and takes it.
        """
        self._schedule, self._evaluations = schedule, evaluations
        self._waits, self._observer, self._hear = waits, observer, hear

    def drain(self) -> None:
        """Hears what is on its way, so that counters and checkpoint agree."""
        began = time.perf_counter()
        self._wait_while(lambda: self._num_left > 0)
        if left := self._num_left:
            taken = time.perf_counter() - began
            line = f"not waited for: {left} closures that take over {taken:.0f} s"
            self._observer.say(line)

    def evaluate(self, env_steps: int) -> None:
        """Evaluates the last parameters, for as long as somebody plays and no signal comes."""
        if not self._evaluations.is_running:  # else nobody plays that, or it was cut off
            self._evaluations.start(env_steps)
            self._wait_while(lambda: self._evaluations.is_running)

    @property
    def _num_left(self) -> int:
        return sum(map(self._schedule.outstanding, _KINDS))

    def _wait_while(self, goes_on: Callable[[], bool]) -> None:
        """Hears what ends, for as long as is waited for it.

        What an evaluation takes is its own affair, as long as somebody plays it: it may be what
        the best checkpoint comes from.
        """
        began = played = time.perf_counter()
        while goes_on() and not self._waits.are_over(began, played):
            self._hear()
            if self._evaluations.is_running and self._schedule.is_busy:
                played = time.perf_counter()
