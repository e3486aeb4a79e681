"""The workers that are there: TensorFlow's coordinator reckons with them, and with no others.

TensorFlow connects to a cluster once all of it answers. When it has lost workers it looks for all
of them at once, so one that is back is not used before the last one is, and meanwhile much else
waits, too. Here it hears only of tasks that answer: a worker that is not there is out of the
cluster, one that comes is in it, at the first connection and later. Before it connects anew, all
others are asked, too: one that is gone without a word, whose closure has not failed yet, would have
it wait for good, and nobody would come in meanwhile. Without its servers nobody comes in: it would
wait for them while it holds a lock that whoever closes the connection needs.
"""

import concurrent.futures
import copy
import threading
import time
from collections.abc import Collection
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute.coordinator import cluster_coordinator

from ps_dqn.cluster import health
from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.config.faults import ANSWER_SECONDS
from ps_dqn.coordinator.connecting import known_tasks

# From one look for a worker to the next, and how long it may take to answer (seconds).
PERIOD, TIMEOUT = 0.2, 2.0
# What a worker's server answers to a request that was cut off as it died: TensorFlow takes that for
# a mistake of the closure's, and ends everything.
CUT_OFF = "Unable to parse request"
# Until a worker that does not reach a parameter server is given the next closure (seconds).
RETRY_SECONDS = 1.0
# Workers that are asked at the same time whether they are still there.
ASKED_AT_ONCE = 16


class PartialSpec(tf.train.ClusterSpec):
    """A whole cluster, of which TensorFlow connects to the workers that are there."""

    def __init__(self, spec: ClusterSpec, present: Collection[int]):
        """A cluster, and the indices of the workers that are there."""
        super().__init__(spec.as_dict())
        self._present = present

    def as_cluster_def(self) -> Any:
        """The tasks to connect to, each with the number that it has in the whole."""
        definition = copy.deepcopy(super().as_cluster_def())
        workers = _workers(definition)
        for index in set(workers) - set(self._present):
            del workers[index]
        return definition


class Members:
    """Lets workers of a connection go and come, one by one."""

    def __init__(self, coordinator: Any, spec: ClusterSpec, present: Collection[int]):
        """Follows a coordinator that was connected to these workers of a cluster.

        Args:
            coordinator: a `tf.distribute.coordinator.ClusterCoordinator`.
            spec: the whole cluster.
            present: indices of the workers that it is connected to.
        """
        self._cluster = cluster = coordinator._cluster
        self._handler, self._addresses = cluster.failure_handler, spec.workers
        self._servers = [*spec.ps, *spec.replay]  # as TensorFlow knows them
        self._present = set(present)
        self._lock = threading.Lock()
        self._is_closed = False
        for worker in cluster.workers:
            self._follow(worker)
        self._lost_server = cluster._record_and_ignore_transient_ps_failure
        cluster._record_and_ignore_transient_ps_failure = self._is_passing
        self._check_is_lost = self._handler._validate_preemption_failure
        self._handler._validate_preemption_failure = self._check_is_worker

    @property
    def present(self) -> set[int]:
        """Indices of the workers that are there."""
        return set(self._present)

    def let_nobody_in(self) -> None:
        """Looks for nobody any more, as the connection was lost: it is not connected anew."""
        self._is_closed = True

    def close(self) -> None:
        """Lets nobody in, and lets the threads of the connection end.

        It waits for a task that TensorFlow is connecting to. TensorFlow's own way to stop a cluster
        also cuts off the closures that are under way.
        """
        self.let_nobody_in()
        self._handler.stop()
        for worker in self._cluster.workers:
            worker.stop()
        waiting = self._cluster.closure_queue
        with waiting._queue_lock:
            waiting._should_process_closures = False
            waiting._closures_queued_condition.notify_all()
            if waiting._error is not None:  # the coordinator lives on, what failed need not
                waiting._error.__traceback__ = None

    def _follow(self, worker: Any) -> None:
        """Changes what the thread of a worker does, before it has been given a closure."""
        index = worker.worker_index
        process, put_back = worker._process_closure, worker._on_closure_failure

        def process_closure(closure: Any) -> None:
            if index in self._present:
                return process(closure)
            # It was never there: as TensorFlow does with one that is lost.
            with self._handler.wait_on_failure(
                on_failure_fn=lambda error: worker._on_closure_failure(closure, error),
                on_recovery_fn=worker._on_worker_recovery,
                worker_device_name=worker.device_name,
            ):
                raise tf.errors.UnavailableError(
                    None, None, f"{worker.device_name} has not been there yet"
                )

        def on_failure(closure: Any, error: Exception) -> None:
            put_back(closure, error)
            self._change(index, is_there=False)
            self._wait_for(self._addresses[index], TIMEOUT)
            known_tasks.wait_until_known({Task("worker", index): self._addresses[index]})
            for address in self._servers:
                self._wait_for(address, ANSWER_SECONDS)
            self._leave_out_silent(self._present - {index})
            if self._is_closed:
                raise SystemExit
            self._change(index, is_there=True)  # TensorFlow connects to it now

        worker._process_closure, worker._on_closure_failure = process_closure, on_failure

    def _is_passing(self, error: Exception) -> bool:
        """Whether a closure that failed for a parameter server goes to whoever takes it next.

        TensorFlow takes the server for lost when that has happened three times. Where the server
        answers here, it is the worker that does not reach it; the others train on.
        """
        servers = cluster_coordinator._extract_failed_ps_instances(str(error))
        if (
            isinstance(error, tf.errors.UnavailableError)
            and cluster_coordinator._is_ps_failure(error)
            and not self._is_closed
            and servers
            and all(known_tasks.is_ours(self._servers[index]) for index in servers)
        ):
            time.sleep(RETRY_SECONDS)
            return True
        return bool(self._lost_server(error))

    def _check_is_worker(self, error: Exception) -> None:
        """Raises a closure's error unless it is that its worker was lost, as TensorFlow's does."""
        is_cut_off = isinstance(error, tf.errors.InternalError) and CUT_OFF in str(error)
        if not is_cut_off or "/job:worker" not in str(error):
            self._check_is_lost(error)

    def _wait_for(self, address: str, timeout: float) -> None:
        """Returns once a task answers; ends its worker's thread where the connection was lost.

        Args:
            address: of the task.
            timeout: how long an answer may take (seconds).
        """
        while self._is_closed or not health.answers(address, timeout):
            if self._is_closed:
                raise SystemExit
            time.sleep(PERIOD)

    def _leave_out_silent(self, indices: Collection[int]) -> None:
        """Takes those out of the cluster who do not answer; they come as those that were lost."""
        addresses = [self._addresses[index] for index in indices]
        with concurrent.futures.ThreadPoolExecutor(ASKED_AT_ONCE, "still there") as pool:
            answers = pool.map(lambda each: health.answers(each, ANSWER_SECONDS), addresses)
            for index, is_there in zip(indices, answers, strict=True):
                if not is_there:
                    self._change(index, is_there=False)

    def _change(self, index: int, is_there: bool) -> None:
        with self._lock:
            # Another one, since TensorFlow may be reading this one.
            definition = copy.deepcopy(self._handler._server_def)
            workers = _workers(definition.cluster)
            if is_there:
                workers[index] = self._addresses[index]
                self._present.add(index)
            else:
                self._present.discard(index)
                workers.pop(index, None)
            self._handler._server_def = definition


def _workers(definition: Any) -> Any:
    """Addresses by index, of a `ClusterDef`."""
    return next(job for job in definition.job if job.name == "worker").tasks
