"""The workers that add up with each other, as the coordinator knows and asks them.

Shapes: P parameters.
"""

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.all_reduce import order
from ps_dqn.errors import ClusterLostError
from ps_dqn.parameter_server.creation import Creation
from ps_dqn.state import Counters, State
from ps_dqn.wire import asking, bridge, messages, parcels

NUMBERS = tf.TensorSpec([None], tf.int64)
MARK = tf.TensorSpec([], tf.int32)
TEXT = tf.TensorSpec([], tf.string)
_NOBODY = "no worker is left that holds the parameters"


class GoneError(ClusterLostError):
    """A worker that was asked is gone."""

    def __init__(self, worker: int):
        super().__init__(f"worker {worker} does not answer")
        self.worker = worker


class Roster:
    """Members of a group. Whoever turns out to be gone is one no longer; the group is broken then.

    Where nobody is left who holds the parameters, that is a `ClusterLostError`.
    """

    def __init__(self, session: int, addresses: Sequence[str], present: Collection[int]):
        """Has formed no group.

        Args:
            session: of the run.
            addresses: of all workers, host:port.
            present: indices of those that are there.
        """
        self._session = session
        self._hosts = [address.rpartition(":")[0] for address in addresses]
        self.members = sorted(present)  # in whom is asked first, too
        self.known = set(present)  # those that have been members
        self._last: list[int] = []  # those of the last group, formed or not: all held the same
        self.generation = 0  # of the group; 0: it has to be formed
        self.size = 0  # P

    @property
    def is_formed(self) -> bool:
        """Whether the members are a group."""
        return bool(self.generation)

    @property
    def absent(self) -> list[int]:
        """Workers of the run that are no members."""
        return sorted(set(range(len(self._hosts))) - set(self.members))

    def is_well(self, worker: int) -> bool:
        """Whether a worker says that it is in the group."""
        found = self.standing(worker)
        is_member = worker in self.members and found["session"] == self._session
        return is_member and self.is_formed and found["generation"] == self.generation

    def keep(self, workers: Iterable[int]) -> None:
        """These are members; where that is news, the group has to be formed."""
        kept = sorted(workers)
        if not kept:
            raise ClusterLostError(_NOBODY)
        if kept != self.members:
            self.members, self.generation = kept, 0
            self.known.update(kept)

    def drop(self, worker: int) -> None:
        """It is gone."""
        self.keep(each for each in self.members if each != worker)

    def form(self, creation: Creation, run: str) -> None:
        """Lets the members add up with each other, all from the state of the furthest of them.

        Args:
            creation: for those that hold nothing of this session.
            run: what they hold then.
        """
        while True:
            try:
                return self._try_to_form(creation, run)
            except GoneError as gone:
                self.drop(gone.worker)

    def _try_to_form(self, creation: Creation, run: str) -> None:
        self.generation = 0
        standings = {worker: self.standing(worker, "pause") for worker in self.members}
        holders = [each for each in standings if standings[each]["session"] == self._session]
        if not holders:
            raise ClusterLostError(_NOBODY)
        last = self._last or self.members
        furthest = order.furthest({each: standings[each] for each in holders}, last)
        behind = order.behind(standings, furthest, last)
        for worker in behind:
            if worker not in holders:
                self.create(worker, creation)
        if behind:
            self._bring(furthest, behind, run)
            standings |= {worker: self.standing(worker) for worker in behind}
        self._last = list(self.members)
        key = 1 + secrets.randbits(30)
        addresses = {
            worker: f"{self._hosts[worker]}:{each['port']}" for worker, each in standings.items()
        }
        # Each step on all of them before the next: see `group`.
        for worker in self.members:
            self.ask("form", worker, [np.int64(key), json.dumps(addresses)], [MARK])
        for worker in self.members:
            self.ask("start", worker, [np.int64(key), np.array(self.members)], [MARK])
        self.generation = key

    def _bring(self, source: int, behind: Sequence[int], run: str) -> None:
        """Gives members the state of another one."""
        state = self.state_of(source)
        for worker in behind:
            self.give(worker, state)
            self.ask("name", worker, [run], [MARK])

    def create(self, worker: int, creation: Creation) -> None:
        """Gives a worker a replica."""
        self.clear_error(worker)  # of an earlier run
        self.ask("create", worker, creation, [MARK])

    def standings(self) -> dict[int, dict[str, Any]]:
        """Of the members that answer."""
        found = {}
        for worker in list(self.members):
            try:
                found[worker] = self.standing(worker)
            except GoneError:
                self.drop(worker)
        return found

    def standing(self, worker: int, method: str = "standing") -> dict[str, Any]:
        """Where a worker is, see `Exchange.standing`; with `pause`, it is in no group then."""
        found: dict[str, Any] = json.loads(self.ask(method, worker, [], [TEXT])[0])
        return found

    def state_of(self, worker: int) -> State:
        """Everything that a worker holds."""
        found = parcels.fetch(self._asker(worker), self.size)
        if not len(found[0]):
            raise GoneError(worker)
        return State.from_arrays(*found)

    def state(self) -> State:
        """Everything that the first member that answers holds."""
        found = self._first(lambda worker: parcels.fetch(self._asker(worker), self.size))
        return State.from_arrays(*found)

    def give(self, worker: int, state: State) -> None:
        """Has a worker go on with a state."""
        parcels.give(self._asker(worker), *state.as_arrays())

    def counters(self) -> Counters:
        """Where the first member that answers is."""
        [found] = self._first(lambda worker: self.ask("counters", worker, [], [NUMBERS]))
        counters: Counters = messages.unpack(Counters, found)
        return counters

    def _first(self, question: Callable[[int], Sequence[Any]]) -> Sequence[Any]:
        """Asks the first member that answers; what it returns has numbers first."""
        while True:
            worker = self.members[0]
            try:
                found = question(worker)
            except GoneError:
                found = []
            if found and found[0].size:  # one that was started again holds nothing
                return found
            self.drop(worker)

    def _asker(self, worker: int) -> parcels.Ask:
        return lambda method, *what: self.ask(method, worker, *what)

    def clear_error(self, worker: int) -> str:
        """See `asking.clear_error`."""
        return asking.clear_error(_device(worker), bridge.server(worker))

    def ask(
        self, method: str, worker: int, inputs: Sequence[Any], outputs: Sequence[tf.TensorSpec]
    ) -> list[Any]:
        """Calls a worker's replica at once.

        Raises:
            GoneError: it does not answer, or was started again and cannot do what was asked.
            WorkerError: its Python failed.
        """
        try:
            found = asking.ask(_device(worker), bridge.server(worker), method, inputs, outputs)
        except ClusterLostError as error:
            raise GoneError(worker) from error
        if list(outputs) == [MARK] and not found[0]:
            raise GoneError(worker)
        return found


def _device(worker: int) -> str:
    return f"/job:worker/replica:0/task:{worker}/device:CPU:0"
