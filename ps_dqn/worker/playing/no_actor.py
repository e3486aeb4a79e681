"""What a learner has in the place of environments: nothing."""

import numpy as np

from ps_dqn.moments import Moments
from ps_dqn.replay.elsewhere import Elsewhere
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Gathered
from ps_dqn.worker.pushes.push_under_way import PushUnderWay


class NoActor:
    """In the place of an `Actor`."""

    env_steps = not_taken = 0

    def __init__(self, num_moments: int):
        """Acts in nothing; `num_moments` are followed of what others act in."""
        self.memory = Elsewhere()
        self._num_moments = num_moments

    def start(self, env_steps: int) -> None:
        """There is nothing to start."""

    def begin(self, push: PushUnderWay) -> None:
        """A push begins."""

    def step(self, acted: Acted, epsilon: float | np.ndarray) -> int:
        """Nobody acts here.

        Raises:
            ValueError: always.
        """
        raise ValueError("a learner has no environments")

    def take_gathered(self) -> Gathered:
        """Nothing."""
        return Gathered(Moments(self._num_moments))

    def close(self) -> None:
        """There is nothing to close."""
