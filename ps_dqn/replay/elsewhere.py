"""What a worker remembers where replay servers keep its experience: nothing of its own."""

from ps_dqn.environments import Step
from ps_dqn.replay.batch import Batch
from ps_dqn.replay.memory import Memory


class Elsewhere(Memory):
    """Experience that replay servers keep, of one who collects none.

    Attributes:
        rows: that can be drawn, as the servers have said last.
    """

    rows = 0

    @property
    def is_warm(self) -> bool:
        """Who acts or learns here does nothing about that."""
        return True

    @property
    def size(self) -> int:
        """`rows`."""
        return self.rows

    @property
    def nbytes(self) -> int:
        """Nothing is kept here."""
        return 0

    def append(self, step: Step) -> None:
        """Nobody collects.

        Raises:
            ValueError: always.
        """
        raise ValueError("a learner collects nothing")

    def sample(self, minibatches: int, batch_size: int, progress: float = 0.0) -> Batch:
        """Learners' closures draw from the replay servers themselves.

        Raises:
            ValueError: always.
        """
        raise ValueError("experience is sampled on replay servers")
