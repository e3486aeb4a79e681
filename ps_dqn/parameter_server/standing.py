"""Where a server's log is, so that another server can go on with it, bit by bit.

The parameters are not all that the next push depends on: so do the pushes that came before it (how
many workers push, the fraction of a sequential update), the tickets that were decided, and the
round that is not complete. A server that begins with all of it and gets the same pushes in the same
order does what the one before has done.
"""

import dataclasses
import json
from typing import TYPE_CHECKING

from ps_dqn.parameter_server.aggregation import Aggregation
from ps_dqn.parameter_server.clock import Clock
from ps_dqn.parameter_server.log import Tickets
from ps_dqn.parameter_server.normalizing import Normalizing
from ps_dqn.parameter_server.pruning import Pruning
from ps_dqn.state import State
from ps_dqn.telemetry.ledger import ServerLedger
from ps_dqn.wire.messages import Entry

if TYPE_CHECKING:
    from ps_dqn.parameter_server.vectors import Vectors


class Standing:
    """Everything of a shard beside its vectors that pushes change."""

    def __init__(
        self,
        log_id: int,
        clock: Clock,
        tickets: Tickets,
        aggregation: Aggregation,
        ledger: ServerLedger,
        normalizing: Normalizing,
        pruning: Pruning,
    ):
        """Begins a log of its own.

        Args:
            log_id: names it.
            clock: of the shard, like the others.
            tickets: those that were decided.
            aggregation: its round.
            ledger: counts pushes.
            normalizing: what it follows of the environments.
            pruning: its mask.
        """
        self._log_id = log_id
        self._clock, self._tickets = clock, tickets
        self._aggregation, self._ledger = aggregation, ledger
        self._normalizing, self._pruning = normalizing, pruning

    def complete(self, parameters: "Vectors") -> State:
        """Everything that the shard holds now, with a copy of these vectors of it."""
        waiting = self._aggregation.waiting
        log = {
            "id": self._log_id,
            "clock": self._clock.as_dict(),
            "tickets": self._tickets.as_dict(),
            "absent": self._aggregation.absent,
            "waiting": [entry for entry, _ in waiting],
            "applied": self._ledger.applied,
            "sum_of_tickets": self._ledger.sum_of_tickets,
        }
        vectors = tuple(vector.copy() for _, vector in waiting)
        state = parameters.state(self._clock.counters)
        begun_at, moments = self._clock.begun_at, self._normalizing.as_numbers()
        state = dataclasses.replace(
            state, begun_at=begun_at, waiting=vectors, moments=moments, log=json.dumps(log)
        )
        return self._pruning.complete(state)

    def restore(self, state: State) -> None:
        """Goes on with another server's log; of a checkpoint there are counters and moments."""
        self._clock.counters, self._clock.begun_at = state.counters, state.begun_at
        self._normalizing.restore(state.moments)
        self._pruning.restore(state)
        if not state.log:
            return
        log = json.loads(state.log)
        self._log_id = log["id"]
        self._clock.restore(**log["clock"])
        self._tickets.restore(**log["tickets"])
        entries = [Entry(*each) for each in log["waiting"]]
        self._aggregation.restore(log["absent"], list(zip(entries, state.waiting, strict=True)))
        self._ledger.applied, self._ledger.sum_of_tickets = log["applied"], log["sum_of_tickets"]


def log_id(text: str) -> int:
    """The name of the log that a `State`'s `log` is of."""
    return int(json.loads(text)["id"])


def next_ticket(text: str) -> int:
    """The first ticket above all that were decided."""
    tickets = json.loads(text)["tickets"]
    return max([int(tickets["oldest"]), *(ticket + 1 for ticket, *_ in tickets["decided"])])


def pushes(text: str) -> int:
    """How many pushes were decided before it."""
    return int(json.loads(text)["clock"]["pushes"])
