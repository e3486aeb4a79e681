"""What workers and parameter servers say to each other: a few numbers, and encoded vectors.

Every tensor that crosses the network is a remote call of its own, so what a pull brings is one. A
push is two, its numbers and its vector, which is sent from where it was computed: copying it behind
its numbers costs as much as a sixth of the push. Numbers are int64.
"""

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.wire import encoding

# Stands for a worker where an entry of the log is about no particular one.
NO_WORKER = -1
# Stand for a push's number: in a verdict about none, or about a repetition, whose vector the
# servers have from another attempt; and where nothing was decided: it is of another session.
NO_NUMBER, UNDECIDED = -1, -2
# In the place of a target's version: of who needs none.
UNWANTED = -2
# Bytes of the numbers before a pull's vectors, padded so that the vectors stay aligned.
HEADER = 128


class Kind(enum.IntEnum):
    """What an entry of the log is about."""

    APPLIED = 0  # the push was applied, or waits for its round (sync)
    STALE = 1  # refused: computed on parameters older than max_staleness, or before a reset
    LATE = 2  # refused: its round was over (sync)
    WITHHELD = 3  # the worker kept its vector to itself; only counters move
    FREEZE = 4  # the average is copied, for an evaluation
    CHECKPOINT = 5  # everything is copied, for a checkpoint
    COLLECTED = 7  # of who only collects: only counters move, and nobody waits for it
    AWAY = 6  # rounds go on without a worker until it pushes, or without all they wait for (sync)


class Status(enum.IntEnum):
    """The answer to a pull: what the worker is to do."""

    READY = 0
    WAIT = 1  # it has pushed for this version already, and others have not (sync)
    FINISHED = 2  # the run is over
    FOREIGN = 3  # the request is of another run


class PullRequest(NamedTuple):
    """A worker asks for the parameters."""

    session: int
    worker: int  # that asks
    target_version: int  # of the target the worker has; -1: none; or UNWANTED
    is_pressing: int = 0  # 1: there is not enough to learn from, so it need not wait for learners
    mask: int = 0  # the number of the mask that the worker has


class PullHeader(NamedTuple):
    """Comes with a shard's parameters, the mask before and the target after them where lacking."""

    status: int
    version: int
    target_version: int
    has_target: int
    updates: int
    env_steps: int
    episodes: int
    sequential_updates: int
    workers: int  # that push
    mask: int  # the number of the mask: which of the parameters there are
    has_mask: int
    wants_growth: int  # 1: the next mask needs gradients of what this one leaves out


class PushHeader(NamedTuple):
    """Comes with every shard's part of a push."""

    session: int
    ticket: int  # one for each push of each closure, the same when a closure runs again
    attempt: int  # another each time a closure runs
    oldest: int  # tickets below it will not come again
    kind: int  # what the worker wants it to be: APPLIED or WITHHELD
    worker: int
    base_version: int  # of the parameters it was computed on
    updates: int
    env_steps: int
    episodes: int
    rate_bits: int  # the step size: the bits of a float64
    mask: int = 0  # the number of the mask of the parameters it was computed on
    grows: int = 0  # 1: it brings gradients of what the mask leaves out


class Entry(NamedTuple):
    """One line of the log that every parameter server follows."""

    position: int
    kind: int
    ticket: int
    attempt: int
    oldest: int
    worker: int  # NO_WORKER: about none
    staleness: int  # versions made between the pull and the push
    updates: int
    env_steps: int
    episodes: int
    rate_bits: int
    grows: int = 0  # as in `PushHeader`
    session: int = 0  # whose log it is: one that comes late is of another


class Verdict(NamedTuple):
    """What became of a push; entries of the log follow it."""

    kind: int
    duplicate: int  # 1: decided before
    staleness: int
    number: int  # pushes that were decided before this one; or NO_NUMBER, UNDECIDED
    version: int  # after it, as the others below
    updates: int
    env_steps: int
    episodes: int
    sequential_updates: int


def pack(record: Sequence[int]) -> np.ndarray:
    """A record as int64 [fields]."""
    return np.array(record, np.int64)


def unpack(record: Any, numbers: np.ndarray) -> Any:
    """The record of this type that `numbers` begins with."""
    return record(*(int(each) for each in numbers[: len(record._fields)]))


def header(record: Any, message: np.ndarray) -> Any:
    """The record of this type that a message begins with."""
    return unpack(record, message[:HEADER].view(np.int64))


def new(record: Sequence[int], num_bytes: int) -> np.ndarray:
    """A message with room for `num_bytes` after its numbers, uint8."""
    message = encoding.aligned(HEADER + num_bytes)
    message[: 8 * len(record)].view(np.int64)[:] = record
    return message


def bits(rate: float) -> int:
    """A float64 as the int64 of the same bits."""
    return int(np.float64(rate).view(np.int64))


def rate(rate_bits: int) -> float:
    """What `bits` was given."""
    return float(np.int64(rate_bits).view(np.float64))


def entries(verdict: np.ndarray) -> list[Entry]:
    """The entries of the log that come with a verdict, int64 [verdict + n·entry]."""
    lines = verdict[len(Verdict._fields) :].reshape(-1, len(Entry._fields))
    return [Entry(*(int(each) for each in line)) for line in lines]


def pack_vector(values: np.ndarray, dtype: str) -> np.ndarray:
    """A shard's part of a push, float32 [n], as uint8; its own memory where nothing changes."""
    if dtype == "float32":
        return values.view(np.uint8)
    message = encoding.aligned(encoding.size(len(values), dtype))
    encoding.encode(values, dtype, message)
    return message


def pack_some(values: np.ndarray, indices: np.ndarray, dtype: str) -> np.ndarray:
    """Some numbers of a shard's part, float32 [n], and where in it they are; uint8."""
    message = encoding.aligned(4 * (1 + len(values)) + encoding.size(len(values), dtype))
    places = message[: 4 * (1 + len(values))].view(np.uint32)
    places[0], places[1:] = len(values), indices
    encoding.encode(values, dtype, message[places.nbytes :])
    return message


def unpack_vector(message: np.ndarray, size: int, dtype: str) -> np.ndarray:
    """The vector that `pack_vector` was given, float32 [size]."""
    return encoding.decode(message, size, dtype)


def unpack_some(message: np.ndarray, size: int, dtype: str) -> np.ndarray:
    """The vector whose numbers `pack_some` was given, float32 [size], zero elsewhere."""
    count = int(message[:4].view(np.uint32)[0])
    indices = message[4 : 4 * (1 + count)].view(np.uint32)
    decoded = np.zeros(size, np.float32)
    decoded[indices] = encoding.decode(message[4 * (1 + count) :], count, dtype)
    return decoded


def shard_sizes(num_parameters: int, num_ps: int) -> list[int]:
    """How many parameters each server holds: equal to within one."""
    return [len(part) for part in np.array_split(np.empty(num_parameters, np.uint8), num_ps)]
