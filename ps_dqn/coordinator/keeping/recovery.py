"""What a new connection begins with, so that no push is missing that was applied.

The state is the furthest that anybody has: the servers themselves, where only this process or its
connection was lost; this process's newest snapshot; or the newest checkpoint. What came after it is
pushed again, in the order in which it was decided, by the workers that have kept it. Then the
servers hold, bit by bit, what they held before.
"""

import collections
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn.parameter_server import standing
from ps_dqn.state import State
from ps_dqn.store import Store
from ps_dqn.wire import asking, messages
from ps_dqn.wire.messages import Kind, PushHeader, Verdict
from ps_dqn.worker.calls import Rejoin
from ps_dqn.worker.pushes.kept_pushes import COLUMNS

# Of what workers have kept, so much is here at a time: of one, and of all of them together (bytes);
# one push of each at the least.
OF_ONE, AT_ONCE = 16 * 2**20, 128 * 2**20

_TABLE = tf.TensorSpec([None, None], tf.int64)
_SIZES = tf.TensorSpec([None, None], tf.int64)
_BYTES = tf.TensorSpec([None], tf.uint8)
_MARK = tf.TensorSpec([], tf.int32)


class Recovered(NamedTuple):
    """What became of the pushes that came after a state."""

    again: int  # pushed again
    lost: int  # that nobody has kept
    first_ticket: int  # that was never used


class _Kept(NamedTuple):
    """A push that a worker has kept."""

    worker: int
    place: int  # among those of the worker
    number: int  # or UNDECIDED
    kind: int
    version: int  # after it
    header: PushHeader
    seen: np.ndarray  # of the environments: see `moments`
    is_after_gap: bool = False  # nobody has kept the one before it

    @classmethod
    def of(cls, worker: int, place: int, line: np.ndarray) -> "_Kept":
        """A line of a worker's table: see `KeptPushes.table`."""
        number, kind, version = map(int, line[:3])
        header = messages.unpack(PushHeader, line[3:])
        return cls(worker, place, number, kind, version, header, seen=line[COLUMNS:])

    @property
    def version_before(self) -> int:
        """Of the parameters when it was decided, in rounds: one that is applied is of that one."""
        is_applied = self.number == messages.UNDECIDED or self.kind == Kind.APPLIED
        return int(self.header.base_version if is_applied else self.version)


def furthest(*states: State | None) -> State | None:
    """The one that is furthest, the first of equal ones; None where there is none."""
    known = [state for state in states if state is not None]
    return max(known, key=lambda state: state.counters.updates, default=None)


class Workers:
    """What workers are asked, each at once."""

    def __init__(self, present: Collection[int], num_ps: int):
        """Those that are there, of whose pushes each of so many servers has a part."""
        self._present, self._num_ps = sorted(present), num_ps
        self._fetched: dict[int, dict[int, list[np.ndarray]]] = {}

    def rejoin(self, rejoin: Rejoin) -> dict[int, np.ndarray]:
        """Tells them of a session; the pushes that each keeps, as `KeptPushes.table` has them."""
        return {worker: self._rejoin(worker, rejoin) for worker in self._present}

    def kept(self, worker: int, place: int) -> list[np.ndarray]:
        """A push that a worker keeps: the part of each server, uint8."""
        fetched = self._fetched.get(worker, {})
        if place not in fetched:  # and what follows is asked for soon
            outputs = [_SIZES, *[_BYTES] * self._num_ps]
            most = min(OF_ONE, AT_ONCE // len(self._present))
            several = self._ask(worker, "kept", [np.int64(place), np.int64(most)], outputs)
            fetched = dict(enumerate(messages_of(several), start=place))
            self._fetched[worker] = fetched
        return fetched.pop(place)

    def pushed_again(self, worker: int, place: int, verdict: Verdict) -> None:
        """Tells a worker what became of such a push."""
        self._ask(worker, "pushed_again", [np.int64(place), messages.pack(verdict)], [_MARK])

    def _rejoin(self, worker: int, rejoin: Rejoin) -> np.ndarray:
        asking.clear_error(_device(worker), worker)  # of a closure that was cut off
        return np.asarray(self._ask(worker, "rejoin", rejoin, [_TABLE])[0])

    def _ask(self, worker: int, method: str, inputs: Any, outputs: Any) -> list[Any]:
        return asking.ask(_device(worker), worker, method, inputs, outputs)


def messages_of(several: list[np.ndarray]) -> list[list[np.ndarray]]:
    """The part of each server of each push: see `KeptPushes.several`."""
    sizes, *parts = several
    ends = np.cumsum(sizes, axis=0)[:-1]  # [pushes - 1, servers]
    split = [np.split(part, ends[:, i]) for i, part in enumerate(parts)]
    return [list(each) for each in zip(*split, strict=True)]


def push_again(
    store: Store,
    workers: Workers,
    state: State | None,
    rejoin: Rejoin,
    is_synchronous: bool,
    heard: int = 0,
) -> Recovered:
    """Lets every worker go on in this session, and pushes again what the servers lack.

    Args:
        store: of the run, which holds the state.
        workers: of the run.
        state: None where the run begins.
        rejoin: what the workers are told.
        is_synchronous: pushes make rounds.
        heard: the version of the parameters that the coordinator has heard of last.

    Raises:
        ClusterLostError: a task is lost, again.
    """
    log = state.log if state is not None else ""
    first = standing.pushes(log) if log else 0
    ticket = standing.next_ticket(log) if log else 1
    kept = [
        _Kept.of(worker, place, line)
        for worker, table in workers.rejoin(rejoin).items()
        for place, line in enumerate(table)
    ]
    order, lost = _in_order(kept, first)
    version, behind = state.counters.version if state is not None else 0, 0
    for each in order:
        missing = each.version_before - behind - version
        if is_synchronous and missing > 0:
            if each.is_after_gap:
                behind += missing  # rounds that nobody can make again
            else:
                store.go_on()  # without those who were away when this round was made
        numbers = messages.pack(each.header._replace(session=store.session))
        header = np.append(numbers, each.seen)
        verdict = store.push_now(header, workers.kept(each.worker, each.place))
        if verdict.number != each.number:
            workers.pushed_again(each.worker, each.place, verdict)
        version = verdict.version
        ticket = max(ticket, each.header.ticket + 1)
    if is_synchronous and version + behind < heard:
        store.go_on()  # the last round was complete without those who were away
    return Recovered(len(order), lost, ticket)


def _in_order(kept: Iterable[_Kept], first: int) -> tuple[list[_Kept], int]:
    """The pushes that servers lack, in the order of their log, and how many nobody has kept.

    Where a number is missing, it may be that of a push whose worker has not heard of its verdict.

    Args:
        kept: what the workers have.
        first: the number of the first push that the servers lack.
    """
    decided = sorted((each for each in kept if each.number >= first), key=lambda each: each.number)
    undecided = collections.deque(
        sorted(
            (each for each in kept if each.number == messages.UNDECIDED),
            key=lambda each: (each.header.base_version, each.worker, each.place),
        )
    )
    order: list[_Kept] = []
    lost, number = 0, first
    for each in decided:
        while number < each.number and undecided:
            order.append(undecided.popleft())
            number += 1
        lost += each.number - number
        order.append(each._replace(is_after_gap=each.number > number))
        number = each.number + 1
    return [*order, *undecided], lost


def _device(worker: int) -> str:
    return f"/job:worker/replica:0/task:{worker}/device:CPU:0"
