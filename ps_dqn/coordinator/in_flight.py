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
        self._since: dict[int, float] = {}  # when each worker got the closure that it runs
        self._slowest: dict[int, float] = {}  # closure of each that has ended (seconds)
        for worker in coordinator._cluster.workers:
            self._follow(worker)

    def seconds(self) -> dict[int, float]:
        """For how long each worker has had the closure that it runs."""
        now = time.monotonic()
        return {worker: now - since for worker, since in list(self._since.items())}

    def slowest(self, worker: int) -> float | None:
        """What the longest closure of a worker has taken (seconds); None before one has ended."""
        return self._slowest.get(worker)

    def _follow(self, worker: Any) -> None:
        index = worker.worker_index
        process, put_back = worker._process_closure, worker._on_closure_failure

        def process_closure(closure: Any) -> None:
            started = self._since[index] = time.monotonic()
            process(closure)
            if self._since.pop(index, None) is not None:
                seconds = time.monotonic() - started
                self._slowest[index] = max(seconds, self._slowest.get(index, 0.0))

        def on_failure(closure: Any, error: Exception) -> None:
            self._since.pop(index, None)  # what follows is waiting for the worker
            self._on_loss(index)
            put_back(closure, error)

        worker._process_closure, worker._on_closure_failure = process_closure, on_failure
