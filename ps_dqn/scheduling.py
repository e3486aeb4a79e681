"""Closures on their way: scheduled on any worker, their results delivered as they come.

ClusterCoordinator hands out results one by one and blocks for each; here threads wait, so that
the coordinator hears of whichever closure ends first and stays free for signals and the display.
"""

import concurrent.futures
import queue
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn.errors import ClusterLostError, WorkerError


class Outcome(NamedTuple):
    """What a closure returned, as NumPy arrays."""

    kind: str
    value: Any


class Schedule:
    """Closures that were scheduled and have not been heard of."""

    def __init__(self, coordinator: Any, most: int, in_order: bool):
        """Starts with none.

        Args:
            coordinator: a `tf.distribute.coordinator.ClusterCoordinator`.
            most: closures that may be outstanding at the same time.
            in_order: deliver results in the order of scheduling, which one worker keeps anyway.
        """
        self._coordinator = coordinator
        self._waiters = concurrent.futures.ThreadPoolExecutor(1 if in_order else most, "waiter")
        self._outcomes: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._outstanding: dict[str, int] = {}

    def submit(self, kind: str, closure: Callable[..., Any], args: Sequence[Any] = ()) -> None:
        """Schedules a closure on whichever worker is free.

        Args:
            kind: comes back with the result.
            closure: a `tf.function`.
            args: its arguments.
        """
        try:
            remote = self._coordinator.schedule(closure, args=tuple(args))
        except tf.errors.OpError as error:
            raise ClusterLostError(_explain(error)) from error
        self._outstanding[kind] = self.outstanding(kind) + 1
        self._waiters.submit(self._wait, kind, remote)

    def outstanding(self, kind: str) -> int:
        """How many closures of a kind have not been heard of."""
        return self._outstanding.get(kind, 0)

    def next(self, timeout: float) -> Outcome | None:
        """The next result, or None where none comes in time (seconds).

        Raises:
            ClusterLostError: TensorFlow gave a closure up.
        """
        try:
            outcome = self._outcomes.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(outcome, BaseException):
            raise ClusterLostError(_explain(outcome)) from outcome
        self._outstanding[outcome.kind] -= 1
        return outcome

    def close(self) -> None:
        """Lets the waiting threads go."""
        self._waiters.shutdown(wait=False, cancel_futures=True)

    def _wait(self, kind: str, remote: Any) -> None:
        try:
            self._outcomes.put(Outcome(kind, remote.fetch()))
        except BaseException as error:
            self._outcomes.put(error)


def check_error(text: Any) -> None:
    """Raises what a worker's Python raised, as a closure returned it; nothing for an empty text.

    Raises:
        WorkerError: with the worker's traceback.
    """
    if isinstance(text, np.ndarray):
        text = text.item()
    if text:
        decoded = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        raise WorkerError(f"Python hosted in a worker failed:\n{decoded}")


def _explain(error: BaseException) -> str:
    first = (str(error) or type(error).__name__).strip().splitlines()[0]
    return f"lost a task that cannot be replaced, likely a parameter server: {first[:200]}"
