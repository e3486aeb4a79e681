"""What a worker remembers of its steps, to learn from: the protocol of all kinds of memory."""

import abc

import numpy as np

from ps_dqn.environments import Step
from ps_dqn.replay.batch import Batch


class Memory(abc.ABC):
    """Takes steps, gives batches."""

    @property
    @abc.abstractmethod
    def is_warm(self) -> bool:
        """Whether there is what learning begins with."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Rows that can be sampled; a sequence counts as the rows to the next one."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Memory or disk of everything it holds once it is full (bytes)."""

    @property
    def size_to_learn(self) -> int:
        """The `size` without which it is not warm; 0 where there is always enough."""
        return 0

    def reseed(self, rng: np.random.Generator) -> None:  # noqa: B027 - some draw nothing
        """What is drawn from now on is drawn by this generator, its own."""

    def begin(self) -> None:  # noqa: B027 - most keep what they have
        """A push begins; what one that was given up half-way has left may have to go."""

    def look_ahead(self, n_step: int, gamma: float) -> None:  # noqa: B027 - of n-step returns
        """What is drawn from now on has returns of this length, the longest at most.

        Args:
            n_step: rewards of a return.
            gamma: discount per environment step.
        """

    @abc.abstractmethod
    def append(self, step: Step) -> None:
        """Takes one step of every environment."""

    @abc.abstractmethod
    def sample(self, minibatches: int, batch_size: int, progress: float = 0.0) -> Batch:
        """Draws the minibatches of all local updates.

        Args:
            minibatches: M; several at once cost much less than one by one.
            batch_size: B.
            progress: share of the run that is done, 0 to 1.

        Raises:
            ValueError: there is not yet what they are drawn from.
        """

    def prepare(  # noqa: B027 - a rollout is not there before it is sampled
        self, minibatches: int, batch_size: int, progress: float = 0.0
    ) -> None:
        """Draws what the next `sample` returns, with the arguments of `sample`.

        What is appended until then is not in it. Priorities lag by one push: it is drawn without
        the errors of what was sampled last, and with the weights of this progress.

        Raises:
            ValueError: there is not yet what they are drawn from.
        """

    def update_priorities(self, errors: np.ndarray) -> None:  # noqa: B027 - few have priorities
        """Takes the errors of what was sampled last, |TD error|, float32 [M, B]."""

    def close(self) -> None:  # noqa: B027 - few have files
        """Lets go of files; it cannot be used any more."""
