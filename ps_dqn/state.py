"""What the parameter servers hold, as everyone else sees it."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np


class Counters(NamedTuple):
    """How far a run is. On the first parameter server, moved together by one assignment."""

    version: Any  # pushes applied
    updates: Any  # minibatch gradients
    env_steps: Any  # environment steps, all workers
    episodes: Any  # finished episodes, all workers
    sequential_updates: Any  # updates, those made side by side as one: see `config.scaling`


class Segment(NamedTuple):
    """Where one variable of the network is in its flat vector of parameters."""

    start: int
    stop: int
    is_head: bool  # else it is before the head
    axes: int = 0  # the sum of a kernel's axes; 0: it has one, and is none


@dataclasses.dataclass(frozen=True)
class State:
    """Everything the parameter servers hold, as NumPy arrays: what a checkpoint saves.

    Independent of the number of parameter servers, so a run can be resumed on another.
    """

    online: np.ndarray  # float32 [P]
    target: np.ndarray  # float32 [P]
    average: np.ndarray  # float32 [P], moving average of online
    slots: tuple[np.ndarray, ...]  # float32 [P] each
    counters: Counters  # int each
    begun_at: int = 0  # the version at which the slots began, at 0 or with a reset
    # What pushes after it depend on beside these, so that a server that begins with it does bit by
    # bit what the one before would have done. A checkpoint on disk goes without.
    waiting: tuple[np.ndarray, ...] = ()  # pushes of a round that is not complete, float32 [P] each
    # Of what environments show and pay, int64: see `moments`.
    moments: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    log: str = ""  # JSON: where the log is; `parameter_server.standing` reads it
    loss_scale: int = 0  # the smallest of workers, who hold it; 0: none is known
    mask_number: int = 0  # how often the mask has changed; 0: there is none
    # 1 where a parameter is kept, 0 where it is zero for good, float32 [P]; [0] without a mask.
    mask: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.float32))
    slots_of: str = ""  # whose slots they are: see `parameter_server.rule`; empty: it is not known

    @property
    def vectors(self) -> tuple[np.ndarray, ...]:
        """All of them, 3 + slots + waiting + masks, float32 [P] each."""
        vectors = (self.online, self.target, self.average, *self.slots, *self.waiting)
        return (*vectors, self.mask) if self.mask_number else vectors

    @property
    def others(self) -> tuple[np.ndarray, str]:
        """What is no vector: numbers, int64 [n], and a text."""
        others = self.begun_at, self.loss_scale, self.mask_number, len(self.slots)
        numbers = np.array([*self.counters, *others], np.int64)
        return np.append(numbers, self.moments), f"{self.slots_of}\n{self.log}"

    def as_arrays(self) -> tuple[np.ndarray, np.ndarray, str]:
        """The same as one matrix, float32 [vectors, P], numbers and a text."""
        return np.stack(self.vectors), *self.others

    @classmethod
    def from_arrays(cls, vectors: np.ndarray, numbers: np.ndarray, text: bytes) -> "State":
        """What `as_arrays` was of."""
        size = len(Counters._fields) + 4
        *counters, begun_at, scale, mask_number, num_slots = (int(each) for each in numbers[:size])
        (online, target, average), others = vectors[:3], vectors[3:]
        masks = 1 if mask_number else 0
        slots_of, _, log = text.decode().partition("\n")
        return cls(
            online,
            target,
            average,
            tuple(others[:num_slots]),
            Counters(*counters),
            begun_at,
            tuple(others[num_slots : len(others) - masks]),
            np.array(numbers[size:], np.int64),
            log,
            scale,
            mask_number,
            others[-1] if masks else np.zeros(0, np.float32),
            slots_of,
        )
