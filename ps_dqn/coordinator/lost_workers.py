"""Who was lost, as soon as TensorFlow notices: it keeps that to itself and waits for the task."""

from collections.abc import Callable
from typing import Any

from tensorflow.python.distribute.coordinator import cluster_coordinator


def watch(coordinator: cluster_coordinator.ClusterCoordinator, tell: Callable[[int], None]) -> None:
    """Tells of each worker that is lost while it has a closure, which goes to another one.

    Args:
        coordinator: hands out the closures.
        tell: takes the worker's index, on the thread that waits for the worker.
    """
    for worker in coordinator._cluster.workers:
        worker._on_closure_failure = _and_tell(worker, tell)


def _and_tell(worker: Any, tell: Callable[[int], None]) -> Callable[[Any, Exception], None]:
    put_back = worker._on_closure_failure

    def on_failure(closure: Any, error: Exception) -> None:
        put_back(closure, error)
        tell(worker.worker_index)

    return on_failure
