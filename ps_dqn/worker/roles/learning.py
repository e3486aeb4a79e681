"""A learner's part in a run: it learns from what replay servers give, and has no environments.

Its closures call `begin`, then for each push `pulled`, `plan`, `weigh`, `pack`, `pushed`; `report`
ends the closure.
"""

import time
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.replay.batch import Batch
from ps_dqn.worker.calls import MARK, Spec
from ps_dqn.worker.playing.no_actor import NoActor
from ps_dqn.worker.roles.session import Session

# How long to leave a replay alone that has not enough to learn from (seconds).
LACK_SECONDS = 0.05


class Weighed(NamedTuple):
    """What to make of minibatches that replay servers have given."""

    should_push: Any  # int32 []: 1, or 0 where there is nothing to learn from yet
    weights: Any  # of importance, float32 [M, B]

    @classmethod
    def specs(cls, batch: Batch) -> "Weighed":
        """Of batches like this one."""
        return cls(should_push=MARK, weights=Spec(batch.weights.shape, np.float32))


class LearningSession(Session):
    """A worker that learns from what others collect; its actor is none."""

    actor: NoActor  # type: ignore[assignment]

    def weigh(self, rows: np.ndarray, draws: np.ndarray, probabilities: np.ndarray) -> Weighed:
        """Says what minibatches count, or that there is nothing to learn from yet.

        Each of R servers gives as many items of a minibatch, so an item of the whole has 1/R of its
        probability there, and R falls out of the weights as N does: see `Prioritized`.

        Args:
            rows: that each server has, int64 [R].
            draws: their numbers, int64 [R]; 0 of a server that has not enough.
            probabilities: float32 [M, B].
        """
        # Each learner reports its share, which add up.
        learners = self._config.topology.num_learners
        self.actor.memory.rows = int(rows.sum()) // learners
        is_enough = bool(draws.all())
        should_push = is_enough and not self._is_finished
        if not is_enough:
            time.sleep(LACK_SECONDS)
            weights = np.zeros_like(probabilities)
        else:
            first = self._config.replay.priority_beta
            beta = first + (1.0 - first) * self._scheduled.progress
            weights = (probabilities.min(axis=1, keepdims=True) / probabilities) ** beta
        self.tally.lap("sampling", then="gradient")
        return Weighed(np.int32(should_push), weights.astype(np.float32))

    def _acting(self) -> Any:
        """It acts on nothing."""
        self._client.is_needed.set()
        return ()

    def _vector_steps(self, workers: int) -> float:
        return 0.0
