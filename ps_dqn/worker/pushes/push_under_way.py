"""The push that a worker is at: what it still lacks, and what chance has decided for it.

A closure may be cut off in the middle of a push: TensorFlow ends it when a server that it works
with is lost. The next one goes on with that push, so that no step of the environments is made for
nothing, and rounds come to the same bits as if nobody had been lost.
"""

from collections.abc import Callable

import numpy as np

from ps_dqn.replay.batch import Batch
from ps_dqn.replay.samplers import NothingToDrawError

_SALT = 0x5EED


class PushUnderWay:
    """From a plan until the push is packed."""

    def __init__(self, seed: int, worker: int):
        """Before the first push; the seeds of acting and learning depend on these."""
        self._whose = (seed, worker, _SALT)
        self.start(env_steps=0)
        self._is_packed = True  # or not begun, or given up
        self._owed = 0.0  # steps of the vector environment, beyond those that were to be made
        self._batch: Batch | None = None
        self.seed = np.zeros(2, np.int32)
        self.steps_made = 0  # of the vector environment, or of some of its environments
        self.steps_to_make = 0

    def start(self, env_steps: int) -> None:
        """Seeds are those of a run that has made so many steps already: see `Actor.start`."""
        self._rng = np.random.default_rng([*self._whose, env_steps])

    def begin(self, steps: float) -> bool:
        """A closure plans a push of so many steps; whether it is not the one that is under way."""
        if not self._is_packed:
            return False
        self._is_packed, self._batch = False, None
        self.seed = self._rng.integers(2**30, size=2, dtype=np.int32)
        self._owed += steps
        whole = int(self._owed)
        self._owed -= whole
        # Those that a closure had not made beside learning when it was cut off, too.
        self.steps_made, self.steps_to_make = 0, max(self.steps_to_make, 0) + whole
        return True

    def stepped(self, steps: int = 1) -> None:
        """Environments were acted in, and have made so many whole steps of all of them by that."""
        self.steps_made += 1
        self.steps_to_make -= steps

    def batch(self, draw: Callable[[], Batch]) -> Batch | None:
        """Its minibatches, drawn once; None gives it up, where there is nothing to draw."""
        if self._batch is None:
            try:
                self._batch = draw()
            except NothingToDrawError:
                self._is_packed = True
        return self._batch

    def packed(self) -> None:
        """What was learned goes out."""
        self._is_packed, self._batch = True, None
