"""A worker's own copy of all that a parameter server holds, changed by whole rounds.

Every worker's goes through the same rounds in the same order, so all of them are the same, bit by
bit: parameters, target, average, optimizer, counters, and the tickets that make a push count once.

Shapes: P parameters, N members of a round, H numbers of a push.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from ps_dqn.config import Config, scaling
from ps_dqn.parameter_server.aggregation import Aggregation, Combined
from ps_dqn.parameter_server.clock import Clock
from ps_dqn.parameter_server.log import Tickets
from ps_dqn.parameter_server.normalizing import Normalizing
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.parameter_server.shard import Shard
from ps_dqn.parameter_server.standing import Standing
from ps_dqn.state import Counters, State
from ps_dqn.telemetry.ledger import ServerLedger
from ps_dqn.wire import encoding, messages
from ps_dqn.wire.messages import Entry, Kind, PullRequest, PushHeader, Status

if TYPE_CHECKING:  # tests of rounds hold NumPy arrays instead, without TensorFlow
    from ps_dqn.parameter_server.vectors import Vectors

_NOTHING = np.zeros(0, np.float32)


class AllReduced(Aggregation):
    """Rounds that come whole: the sum of their gradients comes with the last push.

    The same mean as `Synchronous` makes of the pushes themselves, to rounding.
    """

    def __init__(self, config: Config, num_workers: int):
        super().__init__(config, num_workers)
        self._entries: list[Entry] = []
        self.num_gradients = 1  # that the next sum is of

    def status(self, request: PullRequest, counters: Counters) -> Status:
        """Who has to wait is known to `Exchange`."""
        is_over = counters.env_steps >= self._total_env_steps
        return Status.FINISHED if is_over else Status.READY

    def judge(self, header: PushHeader, staleness: int) -> Kind:
        """All members of a round are at the same version."""
        return Kind.APPLIED

    def add(self, entry: Entry, vector: np.ndarray, workers: int) -> Combined | None:
        """Takes a push of a round; all but the last come without a vector."""
        self._entries.append(entry)
        if not len(vector):
            return None
        entries, self._entries = self._entries, []
        mean = encoding.aligned(vector.nbytes).view(np.float32)
        np.divide(vector, np.float32(self.num_gradients), out=mean)
        rate = math.fsum(messages.rate(each.rate_bits) for each in entries) / len(entries)
        return Combined(
            mean,
            1.0,
            float(self._config.local_updates),
            self._step_size(rate, len(entries)),
            scaling.momentum(self._config, len(entries)),
            entries,
        )


class Replica(Shard):
    """One worker's copy; its methods may be called by several threads."""

    def __init__(
        self,
        config: Config,
        session: int,
        num_workers: int,
        parameters: "Vectors",
        normalizing: Normalizing,
        resets: Resets,
    ):
        """Begins a run; the arguments are `Shard`'s."""
        self._way = AllReduced(config, num_workers)
        super().__init__(
            config, session, 1, num_workers, parameters, normalizing, resets, self._way
        )
        self._num_workers = num_workers
        # What `make_round` stages is as it is, and often nothing.
        self._unpack = lambda message, size, dtype: message.view(np.float32)

    def make_round(self, pushes: np.ndarray, total: np.ndarray) -> None:
        """Counts a round's pushes, each once, and makes a version of them.

        A ticket that was decided before, or comes twice, is a closure that ran again: what it
        pushed is in the sum, and its steps are counted already. A push may come after the end of
        its closure, which has waited in vain, so no ticket of the round is taken for an old one.

        Args:
            pushes: the numbers of each member's, in the order of the workers, int64 [N, H].
            total: the sum of those gradients that were not kept back, float32 [P].
        """
        with self._lock:
            new: dict[int, tuple[PushHeader, np.ndarray]] = {}
            headers = [messages.unpack(PushHeader, numbers) for numbers in pushes]
            oldest = min(min(each.oldest, each.ticket) for each in headers)
            num_gradients = sum(each.kind == Kind.APPLIED for each in headers)
            for header, numbers in zip(headers, pushes, strict=True):
                if header.ticket in new or self._tickets.decision(header.ticket) is not None:
                    self._ledger.duplicates += 1
                else:
                    new[header.ticket] = header._replace(oldest=oldest), numbers
            self._way.num_gradients = num_gradients
            applied = [ticket for ticket in new if new[ticket][0].kind == Kind.APPLIED]
            for ticket, (header, numbers) in new.items():
                vector = total if applied and ticket == applied[-1] else _NOTHING
                self._stage(header, numbers, vector.view(np.uint8))
                self._write(Kind(header.kind), header, 0)

    def decided(self, ticket: int) -> Kind | None:
        """What became of the push of this ticket; None: no round had it yet."""
        with self._lock:
            decision = self._tickets.decision(ticket)
            return None if decision is None else decision.kind

    def verdict(self, kind: Kind, is_repeated: bool) -> np.ndarray:
        """What a worker is told of its push, int64: which round has it is not known yet."""
        with self._lock:
            return self._verdict(kind, messages.NO_NUMBER, 0, self._log.next_index, is_repeated)

    def waiting(self) -> np.ndarray:
        """What a worker that has to wait is told when it pulls, uint8."""
        with self._lock:
            version = self._versions.target_version
            return self._pulls.refusal(Status.WAIT, self._clock, version)

    @property
    def counters(self) -> Counters:
        """Where the run is."""
        return self._clock.counters

    @property
    def reached(self) -> tuple[int, int]:
        """How far along the log it is: its version, and the pushes that were decided."""
        with self._lock:
            return int(self._clock.counters.version), self._clock.pushes

    @property
    def session(self) -> int:
        """Of the run."""
        return self._session

    @property
    def is_halted(self) -> bool:
        """Whether closures end at their next pull."""
        return self._halted

    def freeze(self) -> tuple[Counters, np.ndarray]:
        """The average of this moment, float32 [P], and the counters it is of."""
        with self._lock:
            self._parameters.freeze()
            return self._clock.counters, self._parameters.frozen()

    def complete(self) -> State:
        """Everything as it is now, for a checkpoint or another worker."""
        with self._lock:
            return self._standing.complete(self._parameters)

    def restore(self, state: State) -> None:
        """Begins anew with the state of another one, whatever was pushed here before."""
        with self._lock:
            self._clock, self._tickets = Clock(self._num_workers), Tickets()
            self._ledger = ServerLedger()
            counted = self._clock, self._tickets, self._aggregation, self._ledger
            self._standing = Standing(self._session, *counted, self._normalizing, self._pruning)
        super().restore(state)
