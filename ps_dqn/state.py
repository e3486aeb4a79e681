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
