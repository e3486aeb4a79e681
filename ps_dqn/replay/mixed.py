"""Minibatches of which a share is of transitions that others made (R2D3's demonstration ratio).

Paine et al. 2019, arXiv:1909.01387; with priorities of each kind as in DQfD (Hester et al. 2018,
arXiv:1704.03732).

Shapes: M minibatches of B items.
"""

import numpy as np

from ps_dqn.environments import Step
from ps_dqn.replay.batch import Transitions
from ps_dqn.replay.memory import Memory
from ps_dqn.replay.replay import Replay


class Mixed(Memory):
    """What a worker has collected, and demonstrations, which are never overwritten."""

    def __init__(self, own: Replay | None, demonstrations: Replay, share: float):
        """Takes both; the demonstrations are written already.

        Args:
            own: what is collected; None: nothing is.
            demonstrations: what others made.
            share: of each minibatch, below 1 where anything is collected.
        """
        self._own, self._demonstrations, self._share = own, demonstrations, share

    @property
    def is_warm(self) -> bool:
        """Whether there is enough of its own, where any is collected."""
        return self._own is None or self._own.is_warm

    @property
    def size(self) -> int:
        """Rows that can be sampled, of both."""
        return sum(each.size for each in self._both)

    @property
    def size_to_learn(self) -> int:
        """Of both, where anything is collected."""
        return self._own.size_to_learn + self._demonstrations.size if self._own else 0

    @property
    def nbytes(self) -> int:
        """Memory or disk of both once they are full (bytes)."""
        return sum(each.nbytes for each in self._both)

    def append(self, step: Step) -> None:
        """Takes one step of every environment.

        Raises:
            RuntimeError: nothing is collected.
        """
        if self._own is None:
            raise RuntimeError("steps are taken, and nothing is to be collected")
        self._own.append(step)

    def reseed(self, rng: np.random.Generator) -> None:
        """Each draws by a generator of its own."""
        for each, own in zip(self._both, [rng, *rng.spawn(1)], strict=False):
            each.reseed(own)

    def look_ahead(self, n_step: int, gamma: float) -> None:
        """Both look as far."""
        for each in self._both:
            each.look_ahead(n_step, gamma)

    def sample(self, minibatches: int, batch_size: int, progress: float = 0.0) -> Transitions:
        """Draws minibatches whose last items are demonstrations.

        Raises:
            NothingToDrawError: there is not yet what they are drawn from.
        """
        own, shown = self._parts(batch_size)
        drawn = [self._demonstrations.sample(minibatches, shown, progress)]
        if self._own is not None:
            drawn.insert(0, self._own.sample(minibatches, own, progress))
        batch = Transitions(*(np.concatenate(each, axis=1) for each in zip(*drawn, strict=True)))
        return batch._replace(
            weights=batch.weights * self._scales(own, shown),
            demonstrated=self._demonstrated(minibatches, batch_size),
        )

    def prepare(self, minibatches: int, batch_size: int, progress: float = 0.0) -> None:
        """Draws what the next `sample` returns.

        Raises:
            NothingToDrawError: there is not yet what they are drawn from.
        """
        own, shown = self._parts(batch_size)
        self._demonstrations.prepare(minibatches, shown, progress)
        if self._own is not None:
            self._own.prepare(minibatches, own, progress)

    def update_priorities(self, errors: np.ndarray) -> None:
        """Takes the errors of what was sampled last, |TD error|, float32 [M, B]."""
        own, _ = self._parts(errors.shape[1])
        if self._own is not None:
            self._own.update_priorities(errors[:, :own])
        self._demonstrations.update_priorities(errors[:, own:])

    def close(self) -> None:
        """Lets go of files."""
        for each in self._both:
            each.close()

    @property
    def _both(self) -> list[Replay]:
        return [each for each in (self._own, self._demonstrations) if each is not None]

    def _parts(self, batch_size: int) -> tuple[int, int]:
        """Items of its own and of the demonstrations, one at least of each that there is."""
        most = batch_size if self._own is None else batch_size - 1
        shown = min(max(round(self._share * batch_size), 1), most)
        return batch_size - shown, shown

    def _scales(self, own: int, shown: int) -> np.ndarray:
        """What makes weights that each part divided by its own largest ones of both, [M, B]."""
        largest = [each.sampled.largest for each in self._both]  # [M, 1] each
        parts = [own, shown] if self._own is not None else [shown]
        scales = np.stack(largest) / np.max(largest, axis=0)
        return np.repeat(np.concatenate(scales, axis=1), parts, axis=1).astype(np.float32)

    def _demonstrated(self, minibatches: int, batch_size: int) -> np.ndarray:
        own, shown = self._parts(batch_size)
        row = np.repeat(np.array([0, 1], np.float32), [own, shown])
        return np.tile(row, (minibatches, 1))[:, :, np.newaxis]
