"""Closures on their way: scheduled on any worker, their results delivered as they come.

ClusterCoordinator hands out results one by one and blocks for each; here threads wait, so that
the coordinator hears of whichever closure ends first and stays free for signals and the display.
"""

import concurrent.futures
import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ps_dqn.coordinator.scheduling.in_flight import InFlight
from ps_dqn.wire import bridge, failures

LOST = "lost"  # the kind of news that a worker is gone, whose index is the value


class Outcome(NamedTuple):
    """What a closure returned, as NumPy arrays; or news of another kind."""

    kind: str
    value: Any  # None: the closure ran, but its result was lost with its worker
    args: tuple[Any, ...] = ()  # as they were submitted


class _Closure(NamedTuple):
    kind: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    repeatable: bool


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
        # While it holds the queue's lock: what is lost between a look of ours and its own would
        # have it cut off all closures.
        coordinator._cluster.closure_queue._raise_if_error = self._raise_what_was_lost
        self._waiters = concurrent.futures.ThreadPoolExecutor(1 if in_order else most, "waiter")
        self._news: queue.SimpleQueue[tuple[_Closure, Any] | Outcome] = queue.SimpleQueue()
        self._outstanding: dict[str, int] = {}
        self._is_closed = False
        self.in_flight = InFlight(coordinator, lambda worker: self._news.put(Outcome(LOST, worker)))

    def submit(
        self,
        kind: str,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        repeatable: bool = False,
    ) -> None:
        """Schedules a closure on whichever worker is free.

        Args:
            kind: comes back with the result.
            function: a traced `tf.function` that returns something.
            args: its arguments, arrays that nobody changes any more.
            repeatable: it changes nothing, so it is scheduled again if its result is lost.

        Raises:
            ClusterLostError: TensorFlow gave a closure up.
        """
        closure = _Closure(kind, function, tuple(args), repeatable)
        # Arrays would be copied to the worker by a call of their own; tensors go with the closure.
        tensors = tuple(bridge.local_tensor(each, is_lent=True) for each in closure.args)
        try:
            remote = self._coordinator.schedule(function, args=tensors)
        except tf.errors.OpError as error:
            raise failures.lost(error) from error
        self._outstanding[kind] = self.outstanding(kind) + 1
        self._waiters.submit(self._wait, closure, remote)

    def outstanding(self, kind: str) -> int:
        """How many closures of a kind have not been heard of."""
        return self._outstanding.get(kind, 0)

    @property
    def is_busy(self) -> bool:
        """Whether a worker has a closure."""
        return bool(self.in_flight.seconds())

    def next(self, timeout: float) -> Outcome | None:
        """The next result or loss of a worker, or None where none comes in time (seconds).

        Raises:
            ClusterLostError: TensorFlow gave a closure up.
        """
        try:
            news = self._news.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(news, Outcome):
            return news
        closure, value = news
        self._outstanding[closure.kind] -= 1
        if value is None and closure.repeatable:
            self.submit(*closure)
            return None
        return Outcome(closure.kind, value, closure.args)

    def settle(self, limit: float) -> None:
        """After a loss: begins no closure any more, and waits for those that have begun.

        TensorFlow ends them, each after the operation that it is at, so that its worker is between
        two of them when the next session begins.

        Args:
            limit: how long to wait (seconds).
        """
        waiting = self._coordinator._cluster.closure_queue
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            while not waiting._queue.empty():
                with contextlib.suppress(queue.Empty):
                    waiting._queue.get(block=False).mark_cancelled()
            if not waiting.inflight_closure_count:
                return
            time.sleep(0.01)

    def close(self) -> None:
        """Lets the waiting threads go, and closures: TensorFlow's coordinator keeps this alive."""
        self._is_closed = True
        self._waiters.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(queue.Empty):
            while True:
                self._news.get(block=False)

    def _raise_what_was_lost(self) -> None:
        """In the place of TensorFlow's, which cuts off the closures of all workers first."""
        error = self._coordinator._cluster.closure_queue._error
        if error:
            raise failures.lost(error) from error

    def _wait(self, closure: _Closure, remote: Any) -> None:
        """Waits for a result and copies it here; on one of the waiting threads.

        A worker may die between a closure's end and the copy, or while it goes on. TensorFlow
        then raises one of many errors, or gives None; whether the cluster can go on shows in what
        is asked of it next.
        """
        try:
            value = remote.fetch()
        except Exception:
            value = None
        self.in_flight.copied(remote)
        if not self._is_closed:
            self._news.put((closure, value))
