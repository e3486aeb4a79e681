"""Which workers have a closure, since when, and who was lost: TensorFlow keeps that to itself.

A closure that has ended is followed until its result is copied here: nobody else would miss that.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

from tensorflow.python.distribute.coordinator import cluster_coordinator


@dataclasses.dataclass
class _Result:
    """Of a closure."""

    worker: int
    since: float = math.inf  # when it could be copied


class InFlight:
    """The closures that workers run; its methods may be called on any thread."""

    def __init__(
        self,
        coordinator: cluster_coordinator.ClusterCoordinator,
        on_loss: Callable[[int], None],
    ):
        """Follows a coordinator from now on.

        Args:
            coordinator: hands out the closures.
            on_loss: hears the index of a worker that is lost while it has a closure, which goes to
                another one; on the thread that waits for the worker.
        """
        self._on_loss = on_loss
        # When each worker got the closure that it runs, and its function's name: whoever keeps the
        # function itself keeps all of a connection's.
        self._running: dict[int, tuple[float, bytes]] = {}
        # Closure of each function that has ended on each worker (seconds).
        self._slowest: dict[tuple[int, bytes], float] = {}
        self._results: dict[int, _Result] = {}  # that are not here yet, by identity
        for worker in coordinator._cluster.workers:
            self._follow(worker)

    def seconds(self) -> dict[int, float]:
        """For how long each worker has had the closure that it runs."""
        now = time.monotonic()
        return {worker: now - since for worker, (since, _) in list(self._running.items())}

    def uncopied(self) -> dict[int, float]:
        """For how long a result of each worker could have been copied here, the longest."""
        now, found = time.monotonic(), dict[int, float]()
        for result in list(self._results.values()):
            seconds = now - result.since
            found[result.worker] = max(seconds, found.get(result.worker, 0.0))
        return found

    def copied(self, result: Any) -> None:
        """This `RemoteValue` is here, or is never going to be."""
        self._results.pop(id(result), None)

    def slowest(self, worker: int) -> float | None:
        """What the longest of a worker's closures that are like the one it runs took (seconds).

        None before one has ended: of what it does, for it trains and evaluates.
        """
        _, function = self._running.get(worker, (0.0, b""))
        return self._slowest.get((worker, function))

    def _follow(self, worker: Any) -> None:
        index = worker.worker_index
        process, put_back = worker._process_closure, worker._on_closure_failure

        def process_closure(closure: Any) -> None:
            started, function = time.monotonic(), closure._concrete_function.name
            self._running[index] = started, function
            # Known before it ends: whoever waits for it may have copied it by the time that it has.
            result = _Result(index)
            self._results[closure.maybe_call_with_output_remote_value(id)] = result
            process(closure)
            if self._running.pop(index, None) is not None:
                result.since = time.monotonic()
                seconds, kind = time.monotonic() - started, (index, function)
                self._slowest[kind] = max(seconds, self._slowest.get(kind, 0.0))

        def on_failure(closure: Any, error: Exception) -> None:
            self._running.pop(index, None)  # what follows is waiting for the worker
            self._on_loss(index)
            put_back(closure, error)

        worker._process_closure, worker._on_closure_failure = process_closure, on_failure
