"""A worker's part in the rounds: its closures push and pull here, a thread adds up.

A push is kept until its round is over, so nothing is lost where a group breaks: the worker gives
the same again in the next one. What all have added up is applied by each to its own replica. A
member that could not apply it, for a peer died in between, gets the state of one that could.

A round is over for a worker before its next pull is answered; until then it waits, on this thread's
word rather than in the collective itself, so its closure can end while a peer is away.
"""

import sys
import threading
import traceback
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.all_reduce.contributions import Contributions
from ps_dqn.all_reduce.group import Group
from ps_dqn.all_reduce.replica import Replica
from ps_dqn.state import Counters, State
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PullRequest, PushHeader

# A pull is answered this soon, with WAIT where the round is not over (seconds); a closure asks
# again, and other calls of the task get their turn.
PULL_SECONDS = 0.1
# What a collective that was aborted may take to end (seconds).
ABORT_SECONDS = 20.0


class Members(NamedTuple):
    """Who adds up."""

    generation: int  # of the group
    workers: tuple[int, ...]  # in order


class Exchange:
    """One worker among the members of a group; its methods may be called by several threads."""

    def __init__(self, replica: Replica, group: Group, worker: int, contributions: Contributions):
        """Is in no group yet; ends with `close`.

        Args:
            replica: this worker's.
            group: adds up.
            worker: this one's number.
            contributions: of the run's sizes.
        """
        self.replica, self._group, self._worker = replica, group, worker
        self._contributions = contributions
        self._changed = threading.Condition()
        self._own: np.ndarray | None = None  # numbers of the push that is not in a round yet
        self._members: Members | None = None  # None: the group is not formed, or broken
        self._is_adding = self._is_closed = False
        self._failure = ""  # the traceback of what must not fail
        self._thread = threading.Thread(target=self._run, name="all-reduce", daemon=True)
        self._thread.start()

    @property
    def standing(self) -> dict[str, Any]:
        """Where it is, for the coordinator; as JSON has it."""
        with self._changed:
            return {
                "session": self.replica.session,
                "reached": self.replica.reached,
                "generation": self._members.generation if self._members else 0,
                "waits": self._own is not None,
            }

    def push(self, numbers: np.ndarray, message: np.ndarray) -> np.ndarray:
        """Takes a push for the next round; a verdict, int64.

        Args:
            numbers: the `PushHeader` and what the worker has seen, int64.
            message: the vector, float32 as uint8; nothing where it is kept back.
        """
        header = messages.unpack(PushHeader, numbers)
        with self._changed:
            if header.session != self.replica.session:
                return self.replica.verdict(Kind.LATE, is_repeated=True)
            decided = self.replica.decided(header.ticket)
            if decided is not None:
                return self.replica.verdict(decided, is_repeated=True)
            if self._own is not None:  # of a closure that was cut off; its round is not over
                return self.replica.verdict(Kind.LATE, is_repeated=False)
            is_applied = header.kind == Kind.APPLIED
            self._contributions.put(message.view(np.float32) if is_applied else None)
            self._own = np.array(numbers)
            members = self._members
            if members is not None and len(members.workers) == 1:  # nobody is to be waited for
                self._finish(self._group.reduce(self._contributions.pack(self._own, 0, 1)))
            self._changed.notify_all()
            return self.replica.verdict(Kind(header.kind), is_repeated=False)

    def pull(self, request: np.ndarray) -> np.ndarray:
        """The parameters once the round is over, or that it is not; one uint8 message."""
        wanted = messages.unpack(PullRequest, request)
        with self._changed:
            self._changed.wait_for(self._may_pull, PULL_SECONDS)
            if self._failure:
                raise RuntimeError(f"a round could not be applied:\n{self._failure}")
            is_ready = self._may_pull() and wanted.session == self.replica.session
        return self.replica.pull(request) if is_ready else self.replica.waiting()

    def freeze(self) -> tuple[int, Counters, np.ndarray]:
        """The group that it is in, 0 for none; and what `Replica.freeze` returns."""
        with self._changed:
            generation = self._members.generation if self._members else 0
            return generation, *self.replica.freeze()

    def halt(self) -> None:
        """Ends the run: closures end at their next pull."""
        self.replica.halt()
        with self._changed:
            self._changed.notify_all()

    def pause(self) -> None:
        """Takes part in no group until `start`; what it was adding up has ended.

        Raises:
            RuntimeError: that does not end.
        """
        with self._changed:
            self._members = None
            if self._is_adding:
                self._group.abort()
            if not self._changed.wait_for(lambda: not self._is_adding, ABORT_SECONDS):
                raise RuntimeError("a collective that was aborted goes on")

    def start(self, members: Members) -> None:
        """Adds up with these from now on, all of whom have formed the group."""
        with self._changed:
            self._members = members
            self._changed.notify_all()

    def restore(self, state: State) -> None:
        """Takes over what another one holds, while it is in no group.

        A push that its rounds have is over. One that is not in them, and was computed on older
        parameters, brings what it counts and no gradient.
        """
        with self._changed:
            self.replica.restore(state)
            if self._own is None:
                return
            header = messages.unpack(PushHeader, self._own)
            if self.replica.decided(header.ticket) is not None:
                self._own = None
            elif header.base_version != self.replica.counters.version:
                self._contributions.put(None)
                self._own[PushHeader._fields.index("kind")] = Kind.WITHHELD

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._is_closed = True
        self.pause()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()

    def _may_pull(self) -> bool:
        is_over = self.replica.is_halted or bool(self._failure)
        return is_over or (self._own is None and self._members is not None)

    def _may_add(self) -> bool:
        return self._own is not None and self._members is not None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._may_add())
                if self._is_closed:
                    return
                members, own = self._members, self._own
                assert members is not None
                assert own is not None
                place = members.workers.index(self._worker)
                given = self._contributions.pack(own, place, len(members.workers))
                self._is_adding = True
            try:
                summed = self._group.reduce(given)
            except Exception as error:
                summed = None
                print(f"a round was broken off: {error}", file=sys.stderr, flush=True)  # its log
            with self._changed:
                self._is_adding = False
                # Not where it was paused meanwhile: then who is furthest says what was added up.
                if members is self._members:
                    self._finish(summed)
                self._changed.notify_all()

    def _finish(self, summed: np.ndarray | None) -> None:
        """Ends a round, or says that the group is broken."""
        if summed is None:
            self._members = None
            return
        try:
            total, pushes = self._contributions.unpack(summed)
            self.replica.make_round(pushes, total)
            self._own = None
        except BaseException:
            self._failure, self._members = traceback.format_exc(), None
