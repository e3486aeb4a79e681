"""Which workers have a closure, since when, and who was lost: TensorFlow keeps that to itself."""

import time
from collections.abc import Callable
from typing import Any

from tensorflow.python.distribute.coordinator import cluster_coordinator


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
        for worker in coordinator._cluster.workers:
            self._follow(worker)

    def seconds(self) -> dict[int, float]:
        """For how long each worker has had the closure that it runs."""
        now = time.monotonic()
        return {worker: now - since for worker, (since, _) in list(self._running.items())}

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
            process(closure)
            if self._running.pop(index, None) is not None:
                seconds, kind = time.monotonic() - started, (index, function)
                self._slowest[kind] = max(seconds, self._slowest.get(kind, 0.0))

        def on_failure(closure: Any, error: Exception) -> None:
            self._running.pop(index, None)  # what follows is waiting for the worker
            self._on_loss(index)
            put_back(closure, error)

        worker._process_closure, worker._on_closure_failure = process_closure, on_failure
