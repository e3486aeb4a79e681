"""An actor's part in a run: it collects and hands over, and has no gradient.

Its closures call `begin`, then for each push `pulled`, `plan`, `step`…, `hand_over`, `handed_over`,
`pack`, `pushed`; `report` ends the closure. A push of its own moves counters alone.
"""

import numpy as np

from ps_dqn.learning.result import Learned
from ps_dqn.replay.outbox import Outbox
from ps_dqn.wire.messages import Kind
from ps_dqn.worker.calls import Tickets
from ps_dqn.worker.roles.session import Session


class ActingSession(Session):
    """A worker that collects for others, into an `Outbox`."""

    @property
    def _outbox(self) -> Outbox:
        """What its actor remembers by."""
        outbox = self.actor.memory
        assert isinstance(outbox, Outbox)
        return outbox

    def begin(self, tickets: Tickets) -> np.ndarray:
        """Starts a closure; returns the first pull's requests, int64 [num_ps, fields]."""
        if self.recovery.goes_on:
            self._outbox.is_lacking = True  # a replay server may have come back empty
        self._client.is_pressing = self._outbox.is_lacking
        self._client.wants_target = False
        return super().begin(tickets)

    def hand_over(self) -> list[np.ndarray]:
        """What is ready for the replay servers, a parcel for each, uint8."""
        self._gather()
        self.tally.lap("acting", then="adding")
        return self._outbox.take()

    def handed_over(self, answers: np.ndarray) -> np.ndarray:
        """Takes what the servers say, int64 [R, 2]; 1 if there is a push, int32 []."""
        rows, are_enough = answers.T
        self._outbox.handed_over(int(rows.sum()), is_lacking=not are_enough.all())
        self._client.is_pressing = self._outbox.is_lacking
        self.tally.lap("adding", then="push")
        return np.array(not self._is_finished, np.int32)

    def _vector_steps(self, workers: int) -> float:
        """One at the least: a push is for what was collected."""
        return max(super()._vector_steps(workers), 1.0)

    def _judged(self, learned: Learned) -> tuple[Kind, int]:
        self.tally.add("collected")
        return Kind.COLLECTED, 0
