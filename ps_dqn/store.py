"""What closures and the coordinator need of those who hold a run's parameters.

It has two homes: parameter servers, to which workers push (`parameter_server.store`), and the
workers themselves, who reduce their gradients among each other (`all_reduce.store`). Closures and
the coordinator's loop know neither.

Shapes: P parameters.
"""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn.state import Counters, Segment, State
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Verdict


class Frozen(NamedTuple):
    """What comes of a freeze."""

    worker: Any  # on which it was made, int32 []
    group: Any  # that this worker was in, int64 []; 0: in none, or there are none
    counters: Any  # of that moment, int64 [fields]; no numbers where the worker holds nothing
    average: Any  # float32 [P]; no numbers where the store keeps it


class Store(abc.ABC):
    """The parameters of one run."""

    session: int  # another one each time the coordinator connects
    log_id: int  # of the log that its pushes are written into
    num_ps: int  # parts that a worker pulls and pushes
    num_workers: int
    # Whether it keeps what was frozen, for every worker to pull. If not, whoever has frozen hands
    # it out, and evaluations bring it.
    keeps_frozen: bool
    holder: str  # of parameters, for people

    @abc.abstractmethod
    def create(
        self,
        run_id: str,
        initial: np.ndarray,
        state: State | None = None,
        num_moments: int = 0,
        segments: Sequence[Segment] = (),
    ) -> None:
        """Begins a log, or goes on with that of a state.

        Args:
            run_id: the same for every session of a run.
            initial: the first online and target parameters, float32 [P].
            state: what to begin with instead.
            num_moments: numbers that are followed of the environments: see `moments`.
            segments: variables, for resets, which begin them anew with values that they have in
                `initial`, and for pruning.

        Raises:
            ValueError: it is of another network or another way of applying pushes.
        """

    @abc.abstractmethod
    def held(self, run_id: str, num_parameters: int) -> State | None:
        """What is still held of an earlier session of a run like this.

        Args:
            run_id: of the run.
            num_parameters: P.
        """

    # In closures, which are traced by the coordinator and run on workers.

    @abc.abstractmethod
    def pull(self, requests: tf.Tensor) -> list[tf.Tensor]:
        """Asks for the parameters.

        Args:
            requests: int64 [num_ps, fields of PullRequest], of static shape.

        Returns:
            A message for each part, uint8.
        """

    @abc.abstractmethod
    def push(self, header: tf.Tensor, packed: Sequence[tf.Tensor]) -> tf.Tensor:
        """Pushes once.

        Args:
            header: the `PushHeader` and what the worker has seen, int64.
            packed: the parts of the vector, uint8.

        Returns:
            The `Verdict`, int64.
        """

    @abc.abstractmethod
    def freeze(self) -> Frozen:
        """Freezes the average for an evaluation."""

    @abc.abstractmethod
    def leave(self, worker: tf.Tensor) -> tf.Tensor:
        """In rounds, a worker, int64 [], is about to do something else; the counters [fields]."""

    @abc.abstractmethod
    def pull_frozen(self, after: tf.Tensor, brought: tf.Tensor) -> tf.Tensor:
        """What is to be evaluated, float32 [P].

        Args:
            after: not before this is known.
            brought: the frozen average, float32 [P]; no numbers where it is kept.
        """

    # On the coordinator.

    @abc.abstractmethod
    def counters(self) -> Counters:
        """Where the run is."""

    @abc.abstractmethod
    def frozen(self) -> np.ndarray:
        """The average frozen last, where it is kept, float32 [P]."""

    @abc.abstractmethod
    def state(self) -> State:
        """Everything at one point of the log, for a checkpoint; completes half-made pushes."""

    @abc.abstractmethod
    def push_now(self, header: np.ndarray, packed: Sequence[np.ndarray]) -> Verdict:
        """As `push`, from the coordinator: a push that a worker has kept."""

    @abc.abstractmethod
    def catch_up(self) -> None:
        """Completes what a worker that died has left half-made."""

    @abc.abstractmethod
    def go_on(self, worker: int = messages.NO_WORKER) -> list[int]:
        """Rounds no longer wait for a worker, or for all whose push the present one lacks.

        Returns:
            All workers that rounds go on without.
        """

    @abc.abstractmethod
    def is_newest(self, frozen: Frozen) -> bool:
        """Whether the worker that froze had what the others have."""

    @abc.abstractmethod
    def take_in(self, worker: int) -> None:
        """A worker lacks what others have: rounds may wait for it again, if they go on without."""

    @abc.abstractmethod
    def halt(self) -> None:
        """Ends the run: closures end at their next pull."""

    @abc.abstractmethod
    def ledgers(self) -> list[dict[str, Any]]:
        """`ServerLedger.as_dict` of each parameter server; none where there are none."""

    @abc.abstractmethod
    def errors(self) -> str:
        """The tracebacks of who holds parameters and failed, or an empty text."""


def this_worker() -> tf.Tensor:
    """In a closure: the worker that it runs on, int32 []."""
    index = tf.distribute.coordinator.experimental_get_current_worker_index()
    return tf.cast(index, tf.int32)
