"""Workers that add up without TensorFlow: replicas of NumPy arrays, and groups of threads."""

import threading
from collections.abc import Mapping

import numpy as np

from ps_dqn import moments
from ps_dqn.all_reduce import order
from ps_dqn.all_reduce.contributions import Contributions
from ps_dqn.all_reduce.exchange import Exchange, Members
from ps_dqn.all_reduce.replica import Replica
from ps_dqn.config import Config
from ps_dqn.parameter_server.normalizing import Normalizing
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PullHeader, PullRequest, PushHeader, Verdict
from support.numpy_vectors import NumpyVectors

SESSION = 9
NUMBERS = len(PushHeader._fields) + moments.num_numbers(0)


def make_config(**options) -> Config:
    defaults = {"strategy": "all_reduce", "local_updates": 1, "target_update_period": 10}
    return Config.from_values({**defaults, **options}).shared_by(3)


def make_replica(config: Config, initial: np.ndarray, num_workers: int = 3) -> Replica:
    vectors = NumpyVectors(config, initial)
    nothing = Normalizing(0, 0), Resets(config)
    return Replica(config, SESSION, num_workers, vectors, *nothing)


def header(worker: int, ticket: int, base: int = 0, **fields) -> PushHeader:
    return PushHeader(
        session=SESSION, ticket=ticket, attempt=1, oldest=0, kind=int(Kind.APPLIED),
        worker=worker, base_version=base, updates=1, env_steps=8, episodes=1,
        rate_bits=messages.bits(0.01),
    )._replace(**fields)  # fmt: skip


class BrokenError(Exception):
    """A group that cannot add up."""


class Ring:
    """What the members of a group share; the sum is there once all have given."""

    def __init__(self, num_workers: int):
        self.changed = threading.Condition()
        self.given: dict[tuple[int, int], dict[int, np.ndarray]] = {}  # by round, then member
        self.members: dict[int, tuple[int, ...]] = {}  # of each key
        self.broken: set[int] = set()  # keys
        # Member, key and round of which that one hears nothing: as if it was cut off at its end.
        self.not_heard: set[tuple[int, int, int]] = set()
        self.groups = [ThreadGroup(self, worker) for worker in range(num_workers)]


class ThreadGroup:
    """A `Group` of threads."""

    port = 0

    def __init__(self, ring: Ring, worker: int):
        self._ring, self._worker, self._key, self._count = ring, worker, 0, 0

    def form(self, key: int, addresses: Mapping[int, str]) -> None:
        self._key, self._count = key, 0
        self._ring.members[key] = tuple(sorted(addresses))

    def reduce(self, vector: np.ndarray) -> np.ndarray:
        ring, key = self._ring, self._key
        self._count += 1
        which = key, self._count
        with ring.changed:
            given = ring.given.setdefault(which, {})
            given[self._worker] = vector.copy()
            ring.changed.notify_all()
            ring.changed.wait_for(
                lambda: key in ring.broken or len(given) == len(ring.members[key])
            )
            is_whole = len(given) == len(ring.members[key])
            if not is_whole or (self._worker, *which) in ring.not_heard:
                ring.broken.add(key)
                ring.changed.notify_all()
                raise BrokenError(which)
            return np.sum([given[each] for each in sorted(given)], axis=0, dtype=np.float32)

    def abort(self) -> None:
        with self._ring.changed:
            self._ring.broken.add(self._key)
            self._ring.changed.notify_all()


class Worker:
    """One that pushes and pulls as its closures do."""

    def __init__(self, config: Config, group: ThreadGroup, worker: int, initial: np.ndarray):
        self.worker, self.replica = worker, make_replica(config, initial)
        places = Contributions(len(initial), NUMBERS, 3)
        self.exchange = Exchange(self.replica, group, worker, places)
        self.group = group

    def push(self, vector: np.ndarray, ticket: int, **fields) -> Verdict:
        base = int(self.replica.counters.version)
        numbers = messages.pack(header(self.worker, ticket, base, **fields))
        message = np.asarray(vector, np.float32).view(np.uint8)
        return messages.unpack(Verdict, self.exchange.push(numbers, message))

    def pull(self) -> PullHeader:
        request = messages.pack(PullRequest(SESSION, self.worker, -1))
        return messages.header(PullHeader, self.exchange.pull(request))

    def form(self, key: int, members: tuple[int, ...]) -> None:
        """The second of the coordinator's steps; `start` is the third."""
        self.group.form(key, dict.fromkeys(members, ""))

    def start(self, key: int, members: tuple[int, ...]) -> None:
        self.exchange.start(Members(key, members))


def level(workers: list[Worker], members: tuple[int, ...], last: tuple[int, ...] = ()) -> None:
    """Pauses the members and gives them the state of the furthest, as `Roster.form` does it."""
    standings = {}
    for each in members:
        workers[each].exchange.pause()
        standings[each] = workers[each].exchange.standing
    furthest = order.furthest(standings, last or members)
    for each in order.behind(standings, furthest, last or members):
        workers[each].exchange.restore(workers[furthest].replica.complete())


def form(
    workers: list[Worker], key: int, members: tuple[int, ...], last: tuple[int, ...] = ()
) -> None:
    """The coordinator's three steps; `last` were the members before, all where nobody says."""
    level(workers, members, last)
    for each in members:
        workers[each].form(key, members)
    for each in members:
        workers[each].start(key, members)
