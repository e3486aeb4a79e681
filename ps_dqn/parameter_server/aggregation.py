"""Ways of aggregating: what a pull is answered, how a push is judged, what makes a version.

One class for each value of `--aggregation`; another is one more class, in `ways` too, and one more
choice of the flag. Shapes: P parameters of a shard, W pushes of a round.
"""

import abc
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ps_dqn.config import Config, ParameterServer, scaling
from ps_dqn.state import Counters
from ps_dqn.wire import encoding, messages
from ps_dqn.wire.messages import Entry, Kind, PullRequest, PushHeader, Status

# Numbers of every push of a round that are sorted at a time, so that they stay in a core's cache.
CHUNK = 16_384


class Combined(NamedTuple):
    """Pushes that make one version together."""

    vector: np.ndarray  # float32 [P]
    weight: float  # what it counts
    sequential_updates: float  # that it is worth, those made side by side as one
    step_size: float  # of a gradient, or of a change
    momentum: float  # of changes
    entries: list[Entry]


class Aggregation(abc.ABC):
    """How the pushes of the workers become versions of the parameters, on one server."""

    def __init__(self, config: Config, num_workers: int):
        """Has seen no push.

        Args:
            config: the experiment.
            num_workers: workers of the run.
        """
        self._config = config.parameter_server
        self._total_env_steps = config.run.total_env_steps
        self._num_workers = num_workers

    def _step_size(self, rate: float, workers: int) -> float:
        """Of a gradient its worker's, `rate`; of a change the outer one."""
        is_gradient = self._config.local_updates == 1
        return rate if is_gradient else scaling.step_size(self._config, workers)

    @abc.abstractmethod
    def status(self, request: PullRequest, counters: Counters) -> Status:
        """What a worker that asks for the parameters is to do."""

    @abc.abstractmethod
    def judge(self, header: PushHeader, staleness: int) -> Kind:
        """What becomes of a push that is this many versions old: APPLIED, STALE or LATE."""

    def see(self, worker: int) -> None:  # noqa: B027 - where nobody waits there is nothing to do
        """A worker has pushed, whatever becomes of it."""

    def go_on_without(self, worker: int) -> Combined | None:
        """Nobody waits for a worker any more until it pushes; what makes a version now, if any.

        Args:
            worker: its index; `messages.NO_WORKER` are all whose push the round lacks.
        """
        return None

    @property
    def absent(self) -> list[int]:
        """Workers that nobody waits for."""
        return []

    @property
    def waiting(self) -> list[tuple[Entry, np.ndarray]]:
        """Pushes that were applied and make no version yet: entries, and float32 [P]."""
        return []

    def restore(self, absent: Sequence[int], waiting: Sequence[tuple[Entry, np.ndarray]]) -> None:
        """Takes over what another one's `absent` and `waiting` were.

        Raises:
            ValueError: pushes do not wait for each other here.
        """
        if absent or waiting:
            raise ValueError("pushes wait for a round, and here are none")

    @abc.abstractmethod
    def add(self, entry: Entry, vector: np.ndarray, workers: int) -> Combined | None:
        """Takes an applied push; what makes a version now, if anything does.

        Args:
            entry: the log's, of the push.
            vector: gradient or change, float32 [P].
            workers: how many push.
        """


class Asynchronous(Aggregation):
    """Every push makes a version as it comes, unless it is too old (Dean et al. 2012)."""

    def status(self, request: PullRequest, counters: Counters) -> Status:
        """Nobody waits."""
        return Status.READY

    def judge(self, header: PushHeader, staleness: int) -> Kind:
        """Refuses what is older than `max_staleness`."""
        bound = self._config.max_staleness
        return Kind.STALE if bound is not None and staleness > bound else Kind.APPLIED

    def add(self, entry: Entry, vector: np.ndarray, workers: int) -> Combined | None:
        """The push alone, which counts less the more workers push."""
        options = self._config
        return Combined(
            vector,
            age_weight(entry.staleness, options) * scaling.share(options, workers),
            scaling.sequential_updates(options, workers),
            self._step_size(messages.rate(entry.rate_bits), workers),
            scaling.momentum(options, workers),
            [entry],
        )


class Synchronous(Aggregation):
    """Rounds: one push of every worker but the backups makes a version (Chen et al. 2016).

    The mean of a round; a push computed on an older version, or after its round, is late. A worker
    that rounds go on without is one of theirs again once it pushes, late or not.
    """

    def __init__(self, config: Config, num_workers: int):
        super().__init__(config, num_workers)
        self._usual_size = num_workers - self._config.backup_workers  # W, while nobody is away
        self._members = set(range(num_workers))  # workers that a round waits for
        self._round: dict[int, tuple[Entry, np.ndarray]] = {}  # by worker

    def status(self, request: PullRequest, counters: Counters) -> Status:
        """A worker waits for the others once the round has its push."""
        if counters.env_steps >= self._total_env_steps:
            return Status.FINISHED
        return Status.WAIT if request.worker in self._round else Status.READY

    def judge(self, header: PushHeader, staleness: int) -> Kind:
        """Refuses what is of an earlier round, and the second push of a worker."""
        return Kind.LATE if staleness > 0 or header.worker in self._round else Kind.APPLIED

    def add(self, entry: Entry, vector: np.ndarray, workers: int) -> Combined | None:
        """Keeps the push until its round is complete."""
        self._round[entry.worker] = entry, vector
        return self._complete()

    def see(self, worker: int) -> None:
        """From now on rounds wait for it."""
        self._members.add(worker)

    def go_on_without(self, worker: int) -> Combined | None:
        """The round may be complete without it; one that has no push waits for the same ones."""
        if worker != messages.NO_WORKER:
            self._members.discard(worker)
        elif self._round:
            self._members = set(self._round)
        return self._complete()

    @property
    def absent(self) -> list[int]:
        """Workers that rounds go on without."""
        return sorted(set(range(self._num_workers)) - self._members)

    @property
    def waiting(self) -> list[tuple[Entry, np.ndarray]]:
        """The round."""
        return list(self._round.values())

    def restore(self, absent: Sequence[int], waiting: Sequence[tuple[Entry, np.ndarray]]) -> None:
        """Goes on with a round."""
        self._members = set(range(self._num_workers)) - set(absent)
        self._round = {entry.worker: (entry, vector) for entry, vector in waiting}

    def _complete(self) -> Combined | None:
        """Ends the round if it has the pushes that it waits for, of W workers by now."""
        missing = self._members - self._round.keys()
        if len(self._round) < self._fewest or len(missing) > self._config.backup_workers:
            return None
        # In the order of the workers, not of arrival: sums of floats depend on it, and a
        # synchronous run is to be the same every time.
        entries, vectors = zip(*(self._round[each] for each in sorted(self._round)), strict=True)
        self._round = {}
        weights = [age_weight(each.staleness, self._config) for each in entries]
        rate = math.fsum(messages.rate(each.rate_bits) for each in entries) / len(entries)
        weight = math.fsum(weights) / len(weights)
        return Combined(
            self.combine(vectors, weights),
            weight,
            float(self._config.local_updates),
            self._step_size(rate, len(entries)),
            scaling.momentum(self._config, len(entries)),
            list(entries),
        )

    @property
    def _fewest(self) -> int:
        """The pushes that a round needs, whoever is away."""
        return 1

    def combine(self, vectors: tuple[np.ndarray, ...], weights: list[float]) -> np.ndarray:
        """The mean of a round's vectors, float32 [P], each weighed by its own age."""
        shares = np.array(weights) * (len(weights) / (math.fsum(weights) or 1.0))
        total = encoding.zeros(len(vectors[0]))
        np.multiply(vectors[0], np.float32(shares[0]), out=total)
        for share, vector in zip(shares[1:], vectors[1:], strict=True):
            total += vector if share == 1.0 else np.float32(share) * vector
        total /= np.float32(len(vectors))
        return total


class TrimmedMean(Synchronous):
    """Rounds of which each coordinate's largest and smallest numbers do not count.

    What remains is averaged (Yin et al. 2018, arXiv:1803.01498), so a minority of workers that push
    garbage cannot move the parameters far. Ages do not weigh: in a round all are of one version.
    As many do not count in a round that others are away from, so that holds there too.
    """

    @property
    def _fewest(self) -> int:
        return 2 * self._num_trimmed + 1

    @property
    def _num_trimmed(self) -> int:
        """Pushes that do not count at either end."""
        return scaling.num_trimmed(self._config.trim_fraction, self._usual_size)

    def combine(self, vectors: tuple[np.ndarray, ...], weights: list[float]) -> np.ndarray:
        """The mean of each coordinate without `trim_fraction` of the round at either end."""
        trimmed = self._num_trimmed
        return _between(vectors, trimmed, len(vectors) - trimmed)


class Median(Synchronous):
    """Rounds of which each coordinate's median counts (Yin et al. 2018, arXiv:1803.01498)."""

    @property
    def _fewest(self) -> int:
        # What is a minority of a whole round is one of this too.
        return 2 * ((self._usual_size - 1) // 2) + 1

    def combine(self, vectors: tuple[np.ndarray, ...], weights: list[float]) -> np.ndarray:
        """The median of each coordinate; of an even number the mean of the two in the middle."""
        middle = (len(vectors) - 1) // 2
        return _between(vectors, middle, len(vectors) - middle)


def age_weight(age: int, config: ParameterServer) -> float:
    """How much a push counts whose parameters are `age` versions old: e^(-decay·age)·g(age).

    The gate g falls along a cosine from 1 to 0 at the cut-off (Shah and Sun 2026,
    arXiv:2605.09126, there in front of an outer Adam).

    Args:
        age: versions made between its pull and its push.
        config: `staleness_decay`, 0 leaves the exponential out; `staleness_cutoff`, 0 the gate.
    """
    decay, cutoff = config.staleness_decay, config.staleness_cutoff
    gate = 1.0
    if cutoff:
        gate = 0.5 * (1 + math.cos(math.pi * min(age / cutoff, 1.0)))
    return math.exp(-decay * age) * gate


def _between(vectors: tuple[np.ndarray, ...], low: int, high: int) -> np.ndarray:
    """The mean of each coordinate's ordered numbers `low` to before `high`, float32 [P]."""
    found = encoding.zeros(len(vectors[0]))
    for start in range(0, len(found), CHUNK):
        part = slice(start, start + CHUNK)
        ordered = np.sort(np.stack([vector[part] for vector in vectors]), axis=0)  # [W, chunk]
        found[part] = ordered[low:high].mean(axis=0)
    return found
