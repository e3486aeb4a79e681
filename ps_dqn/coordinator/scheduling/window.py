"""The window of training closures that are on their way, and the tickets of their pushes."""

from ps_dqn.config import Config, scaling
from ps_dqn.coordinator.scheduling.closure_length import ClosureLength
from ps_dqn.telemetry.report import Report
from ps_dqn.worker.calls import Tickets


class Window:
    """Training closures that were scheduled and have not ended."""

    def __init__(self, config: Config, num_workers: int, first_ticket: int = 1):
        """Has none.

        Args:
            config: the experiment.
            num_workers: that the run is for.
            first_ticket: of its closures; lower ones were used up.
        """
        options = config.parameter_server
        self._has_pace = config.has_pace
        self._most = num_workers * options.closures_per_worker
        self._env_steps_per_push = scaling.env_steps_per_push(config, num_workers)
        self._length = ClosureLength(options, num_workers)
        # An evaluation waits for what is on its way, so that is no more than from one to the next.
        together = self._most * self._env_steps_per_push
        self._most_pushes = max(int(config.run.eval_period / together), 1)
        self._is_said = options.pushes_per_closure is not None or num_workers == 1
        self._next_ticket = first_ticket
        self._pushes: dict[int, int] = {}  # by first ticket, in order

    def has_room(self, env_steps_left: int) -> bool:
        """Whether a closure more fits.

        Args:
            env_steps_left: until the run is over, those on their way not yet taken off.
        """
        if len(self._pushes) >= self._most:
            return False
        if self._has_pace:
            return True  # all wait for all; the parameter servers know when it is over
        return sum(self._pushes.values()) * self._env_steps_per_push < env_steps_left

    def open(self, safe: int, others: int = 0) -> Tickets:
        """One more closure, with a ticket for each of its pushes.

        Args:
            safe: pushes of lower numbers are in a snapshot.
            others: workers that go on where whoever gets it cannot be used.
        """
        first, pushes = self._next_ticket, self._length.pushes
        if not self._is_said:
            pushes = min(pushes, self._most_pushes)
        self._next_ticket += pushes
        self._pushes[first] = pushes
        return Tickets(first, next(iter(self._pushes)), pushes, safe, others)

    def close(self, first: int) -> None:
        """The closure of this first ticket has ended."""
        del self._pushes[first]

    def measure(self, report: Report) -> None:
        """Takes what a closure took; later ones are as long as follows from it."""
        self._length.add(report)
