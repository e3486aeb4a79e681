"""What one parameter server holds, and the rules by which it changes. No TensorFlow in it.

All servers follow one log. The first server writes it: for each push it decides once whether it
is applied, refused or a repetition, under a lock. The others hold their part of the push already
when that is decided (`stage`), and apply it when they read its entry (`follow`), in the order of
the log. So every server goes through the same sequence of pushes and counters, whatever dies
between; and a push that the log has is never lost, because whoever comes next brings the entries
that a server lacks.

Shapes: P parameters of this shard.
"""

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.parameter_server import ways
from ps_dqn.parameter_server.aggregation import Aggregation, Combined
from ps_dqn.parameter_server.clock import Clock
from ps_dqn.parameter_server.log import Decision, Log, Staged, Tickets
from ps_dqn.parameter_server.normalizing import Normalizing
from ps_dqn.parameter_server.pruning import Pruning
from ps_dqn.parameter_server.pulls import Pulls
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.parameter_server.standing import Standing
from ps_dqn.parameter_server.versions import Versions
from ps_dqn.state import State
from ps_dqn.telemetry.ledger import ServerLedger
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Entry, Kind, PullRequest, PushHeader, Status

if TYPE_CHECKING:  # tests of the protocol hold NumPy arrays instead, without TensorFlow
    from ps_dqn.parameter_server.vectors import Vectors

# What entries that are no push begin from: of no session, and no ticket.
_NO_PUSH = PushHeader(*[0] * len(PushHeader._fields))


class Shard:
    """One parameter server's part of everything; its methods may be called by several threads."""

    def __init__(
        self,
        config: Config,
        session: int,
        num_ps: int,
        num_workers: int,
        parameters: "Vectors",
        normalizing: Normalizing | None = None,
        resets: Resets | None = None,
        way: Aggregation | None = None,
        pruning: Pruning | None = None,
    ):
        """Begins a run.

        Args:
            config: the experiment.
            session: the run; requests of another change nothing.
            num_ps: parameter servers of the run.
            num_workers: its workers.
            parameters: this server's part of the vectors, as they are at first.
            normalizing: what it follows of the environments; None: nothing.
            resets: what is begun anew; None: nothing.
            way: of aggregating; None: the one that the configuration names.
            pruning: what is zero for good; None: nothing.
        """
        options = config.parameter_server
        self._session = session
        self._unpack = messages.unpack_some if options.push_top_k < 1 else messages.unpack_vector
        self._parameters = parameters
        self._aggregation = way or ways.make(config, num_workers)
        self._clock = Clock(num_workers)
        self._pruning = pruning or Pruning(config, 0, parameters.size)
        self._versions = Versions(config, parameters, resets, self._pruning)
        self._tickets, self._log = Tickets(), Log(is_shared=num_ps > 1)
        self._halted = False
        self._checkpoint: State | None = None
        self._pulls = Pulls(parameters, options.pull_wire_dtype, self._pruning)
        self._lock, self._ledger = threading.Lock(), ServerLedger()
        self._normalizing = normalizing or Normalizing(0, 0)
        counted = self._clock, self._tickets, self._aggregation, self._ledger, self._normalizing
        self._standing = Standing(session, *counted, self._pruning)

    def pull(self, request: np.ndarray) -> np.ndarray:
        """The parameters, and the target if the worker has an older one; one uint8 message."""
        wanted = messages.unpack(PullRequest, request)
        with self._lock:
            status = self._status(wanted)
            target_version = self._versions.target_version
            if status is not Status.READY:
                return self._pulls.refusal(status, self._clock, target_version)
            with_target = wanted.target_version not in (target_version, messages.UNWANTED)
            message = self._pulls.message(self._clock, target_version, with_target, wanted.mask)
            self._ledger.pulled(len(message))
            return message

    def push(self, numbers: np.ndarray, message: np.ndarray) -> np.ndarray:
        """The whole push, where there is one server: stages, decides; a verdict, int64."""
        started, header = time.perf_counter(), messages.unpack(PushHeader, numbers)
        with self._lock:
            self._stage(header, numbers, message)
            verdict = self._decide(header, self._log.next_index)
            self._ledger.pushed(numbers.nbytes + len(message), time.perf_counter() - started)
            return verdict

    def stage(self, numbers: np.ndarray, message: np.ndarray) -> int:
        """Takes this server's part of a push; the index of the first entry it lacks.

        Args:
            numbers: the `PushHeader` and what the worker has seen, int64.
            message: the vector, uint8, as `push_wire_dtype` and `push_top_k` say.
        """
        with self._lock:
            self._stage(messages.unpack(PushHeader, numbers), numbers, message)
            self._ledger.pushed(numbers.nbytes + len(message), 0.0)
            return self._log.next_index

    def decide(self, request: np.ndarray) -> np.ndarray:
        """On the first server: what becomes of a push that all servers have staged.

        Args:
            request: the numbers of `stage` and the first entry that some server lacks, int64.

        Returns:
            A verdict and the entries from there on, int64.
        """
        started, header = time.perf_counter(), messages.unpack(PushHeader, request)
        with self._lock:
            verdict = self._decide(header, int(request[-1]))
            self._ledger.worked(time.perf_counter() - started)
            return verdict

    def follow(self, verdict: np.ndarray) -> int:
        """On the other servers: applies what the log says; the first entry it still lacks."""
        started = time.perf_counter()
        with self._lock:
            for entry in messages.entries(verdict):
                if entry.session != self._session:
                    continue
                if entry.position > self._log.next_index:
                    raise RuntimeError(
                        f"the log goes on at {entry.position}, this server lacks entry "
                        f"{self._log.next_index}"
                    )
                if entry.position == self._log.next_index:
                    self._follow(entry)
            self._ledger.worked(time.perf_counter() - started)
            return self._log.next_index

    def mark(self, kind: Kind, known: int, worker: int = messages.NO_WORKER) -> np.ndarray:
        """On the first server: an entry that is no push; a verdict and entries from `known`."""
        with self._lock:
            self._write(kind, _NO_PUSH._replace(worker=worker), 0)
            return self._verdict(kind, messages.NO_NUMBER, 0, known)

    def entries(self, known: int) -> np.ndarray:
        """On the first server: the entries from `known` on, after a verdict that says nothing."""
        with self._lock:
            return self._verdict(Kind.WITHHELD, messages.NO_NUMBER, 0, known)

    def next_index(self) -> int:
        """The first entry of the log that this server lacks."""
        return self._log.next_index

    def frozen(self) -> np.ndarray:
        """The average when it was frozen last, float32 [P]."""
        with self._lock:
            return self._parameters.frozen()

    def checkpoint(self) -> State:
        """Everything when it was last marked; this server's part."""
        with self._lock:
            assert self._checkpoint is not None
            return self._checkpoint

    def restore(self, state: State) -> None:
        """Puts this server's part of a state back; before the first push."""
        with self._lock:
            self._parameters.restore(state)
            self._standing.restore(state)
            if self._pruning.mask.number:
                self._parameters.keep(self._pruning.mask.kept)
            self._versions.target_version += 1
            self._pulls.clear()

    def halt(self) -> bool:
        """Ends the run: closures end at their next pull. Returns True."""
        self._halted = True
        return True

    def tally(self) -> dict[str, Any]:
        """What all servers must agree on: counters, entries, pushes, tickets, absent workers."""
        with self._lock:
            return {
                **self._clock.counters._asdict(),
                "entries": self._log.next_index,
                "applied": self._ledger.applied,
                "sum_of_tickets": self._ledger.sum_of_tickets,
                "staged": self._tickets.staged,
                "absent": self._aggregation.absent,
            }

    def ledger(self) -> dict[str, Any]:
        """Requests, bytes and decisions so far, for JSON."""
        with self._lock:
            return self._ledger.as_dict()

    def _status(self, request: PullRequest) -> Status:
        if request.session != self._session:
            return Status.FOREIGN
        if self._halted:
            return Status.FINISHED
        return self._aggregation.status(request, self._clock.counters)

    def _stage(self, header: PushHeader, numbers: np.ndarray, message: np.ndarray) -> None:
        # A worker that has failed sends zeros, which is no session.
        if header.session == self._session:
            moments = np.array(numbers[len(PushHeader._fields) :])  # the message may go away
            self._tickets.stage(header.ticket, header.attempt, Staged(message, moments))

    def _decide(self, header: PushHeader, known: int) -> np.ndarray:
        if header.session != self._session:
            return self._verdict(Kind.LATE, messages.UNDECIDED, 0, self._log.next_index, True)
        decision = self._tickets.decision(header.ticket)
        if decision is not None:
            self._ledger.duplicates += 1
            number = decision.number if decision.attempt == header.attempt else messages.NO_NUMBER
            return self._verdict(decision.kind, number, 0, known, is_repeated=True)
        staleness = max(self._clock.counters.version - header.base_version, 0)
        kind = Kind(header.kind)
        if kind is Kind.APPLIED:
            kind = self._aggregation.judge(header, staleness)
            if kind is Kind.APPLIED and self._versions.are_past(header, self._clock):
                kind = Kind.STALE
        self._write(kind, header, staleness)
        return self._verdict(kind, self._clock.pushes - 1, staleness, known)

    def _write(self, kind: Kind, header: PushHeader, staleness: int) -> None:
        """Adds an entry to the log, and follows it here."""
        entry = Entry(
            position=self._log.next_index,
            kind=kind,
            ticket=header.ticket,
            attempt=header.attempt,
            oldest=header.oldest,
            worker=header.worker,
            staleness=staleness,
            updates=header.updates if kind is Kind.APPLIED else 0,
            env_steps=header.env_steps,
            episodes=header.episodes,
            rate_bits=header.rate_bits,
            grows=header.grows,
            session=self._session,
        )
        self._log.append(entry)
        self._follow(entry)

    def _verdict(
        self, kind: Kind, number: int, staleness: int, known: int, is_repeated: bool = False
    ) -> np.ndarray:
        numbers = [int(kind), int(is_repeated), staleness, number, *self._clock.counters]
        for entry in self._log.since(known):
            numbers.extend(entry)
        return messages.pack(numbers)

    def _follow(self, entry: Entry) -> None:
        """Does what an entry says; the only place where anything changes."""
        self._log.next_index = entry.position + 1
        self._pulls.clear()
        kind = Kind(entry.kind)
        if kind is Kind.FREEZE:
            self._parameters.freeze()
            return
        if kind is Kind.CHECKPOINT:
            self._checkpoint = self._standing.complete(self._parameters)
            return
        if kind is Kind.AWAY:
            self._make_version(self._aggregation.go_on_without(entry.worker))
            return
        self._clock.see(entry.worker, collects=kind is Kind.COLLECTED)
        self._aggregation.see(entry.worker)
        staged = self._tickets.staged_push(entry.ticket, entry.attempt)
        self._normalizing.see(staged.moments)
        if kind is Kind.APPLIED:
            vector = self._pruning.unpacked(staged.message, self._unpack)
            self._make_version(self._aggregation.add(entry, vector, self._clock.workers))
        else:
            self._clock.count([entry])
        self._normalizing.write(self._parameters)
        self._tickets.decide(entry.ticket, Decision(kind, entry.attempt, self._clock.pushes - 1))
        self._tickets.raise_oldest(entry.oldest)
        self._ledger.decided(entry)

    def _make_version(self, combined: Combined | None) -> None:
        if combined is not None:
            self._versions.make(combined, self._clock)
