"""The tasks of a run: started where they are ours, and looked after."""

import contextlib
import math
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ps_dqn.cluster import health, in_process, local
from ps_dqn.cluster.control import Control
from ps_dqn.cluster.spec import ClusterSpec, Placement, Task, TaskOptions
from ps_dqn.coordinator.pulses import Pulses
from ps_dqn.coordinator.task_failures import LOST, TaskFailures
from ps_dqn.errors import ClusterLostError
from ps_dqn.parameter_server.task import serve as serve_parameters
from ps_dqn.run import directory
from ps_dqn.telemetry import prometheus, pulse
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.worker.task import serve as serve_worker


class Tasks:
    """What the loop needs to know of the cluster's tasks."""

    def __init__(
        self,
        num_workers: int,
        cluster: Control | None,
        failures: TaskFailures,
        absent: Sequence[int] = (),
        pulses: Pulses | None = None,
    ):
        """Looks after the tasks of `cluster`; None where others start and watch them.

        Args:
            num_workers: of the run.
            cluster: the tasks, where they are ours.
            failures: of tasks, which are noticed here.
            absent: workers that are not there yet.
            pulses: what tasks are at, where somebody asks them.
        """
        self.num_workers, self.absent, self._failures = num_workers, absent, failures
        self._cluster = cluster
        self._servers = () if cluster is None else tuple(cluster.tasks("ps"))
        self._reporting: set[int] = set()
        self._never_there = set(absent)
        self.pulses, self.gone, self.reported_at = pulses, set(absent), -math.inf

    def check(self) -> list[str]:
        """Starts workers again that died; returns lines for people.

        Raises:
            TaskDiedError: one keeps dying.
            ClusterLostError: a parameter server died.
        """
        if self._cluster is None:
            return []
        lines = self._cluster.check("worker")
        if self._cluster.ended("ps"):
            raise ClusterLostError("lost a parameter server")
        return lines

    def reported(self, worker: int) -> None:
        """A worker has been heard of; and so have, by way of it, the parameter servers."""
        self.reported_at = time.monotonic()
        self._reporting.add(worker)
        self.gone.discard(worker)
        self._never_there.discard(worker)
        self._failures.work([Task("worker", worker)])
        if self._cluster is not None:
            self._cluster.are_well(Task("worker", worker), *self._servers)

    def lost(self, worker: int) -> None:
        """A worker is gone, until it reports again."""
        self._reporting.discard(worker)
        self.gone.add(worker)
        if worker not in self._never_there:
            self._failures.noticed(Task("worker", worker), LOST)

    def last_words(self, worker: int) -> str:
        """The end of a worker's log, where it is at hand; else where to look."""
        if self._cluster is None:
            return "its log says how"
        return self._cluster.last_words(Task("worker", worker))

    @property
    def workers_reporting(self) -> int:
        """How many workers contribute."""
        return len(self._reporting)


@contextlib.contextmanager
def running(
    placement: Placement, folder: pathlib.Path, say: Callable[[str], None]
) -> Iterator[local.LocalCluster | None]:
    """Starts workers and parameter servers, where they are ours to start, and ends them.

    Local ones are forked: TensorFlow must have been imported, and must not have made anything.

    Args:
        placement: where they run.
        folder: the run directory.
        say: takes lines for people about tasks that have come.
    """
    threads = (placement.intra_op_threads, placement.inter_op_threads)
    worker_dir = folder / directory.WORKER_FILES
    if placement.kind == "local":
        cluster = local.LocalCluster(
            placement.spec,
            {
                "worker": _role("ps_dqn.worker", serve_worker, threads, worker_dir=worker_dir),
                "ps": _role("ps_dqn.parameter_server", serve_parameters, threads),
            },
            folder / directory.LOGS,
            placement.start_method,
            forks_again=placement.restart,
        )
        with local.running(cluster, say):
            yield cluster
        return
    if placement.kind == "in_process":
        from ps_dqn.parameter_server.host import ParameterHost
        from ps_dqn.wire import bridge
        from ps_dqn.worker.host import WorkerHost

        bridge.install(lambda task: WorkerHost(task, worker_dir) if task >= 0 else ParameterHost())
        in_process.start(
            placement.spec,
            intra_op_threads=threads[0],
            inter_op_threads=threads[1],
            pulse_of=lambda task: pulse.encode(
                bridge.pulse(task.index if task.job == "worker" else bridge.server(task.index))
            ),
        )
    yield None


def _role(
    module: str, serve: Callable[..., Any], threads: tuple[int, int], **others: object
) -> local.Role:
    def serve_with_options(spec: ClusterSpec, task: Task) -> None:
        texts = {name: str(each) for name, each in others.items()}
        serve(spec, task, TaskOptions(*threads), **texts)

    options = {"intra_op_threads": threads[0], "inter_op_threads": threads[1], **others}
    arguments = tuple(f"--{name}={each}" for name, each in options.items())
    return local.Role(module, arguments, serve_with_options)


def serve_health(placement: Placement, vitals: Vitals) -> health.OwnServer:
    """Answers probes, where there is a port; of the coordinator's own server, which is to start.

    Raises:
        HealthError: the port cannot be used, or a package is missing.
    """
    own = health.OwnServer(placement.spec.chief)
    if placement.health_port:
        collector = prometheus.coordinator(vitals.read)
        health.start(placement.health_port, own.is_alive, own.is_ready, collector)
    return own
