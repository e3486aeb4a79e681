"""The tasks of a run: started where they are ours, and looked after."""

import contextlib
import functools
import math
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ps_dqn.actor.task import serve as serve_actor
from ps_dqn.cluster import health, in_process, local
from ps_dqn.cluster.control import Control
from ps_dqn.cluster.spec import ClusterSpec, Placement, Task, TaskOptions, of_servers
from ps_dqn.coordinator.supervision.missing_actors import MissingActors
from ps_dqn.coordinator.supervision.pulses import Pulses
from ps_dqn.coordinator.supervision.task_failures import LOST, TaskFailures
from ps_dqn.errors import ClusterLostError
from ps_dqn.parameter_server.task import serve as serve_parameters
from ps_dqn.profiling import timeline
from ps_dqn.replay_server.task import serve as serve_replay
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
        actors: Sequence[str] = (),
    ):
        """Looks after the tasks of `cluster`; None where others start and watch them.

        Args:
            num_workers: of the run.
            cluster: the tasks, where they are ours.
            failures: of tasks, which are noticed here.
            absent: workers that are not there yet.
            pulses: what tasks are at, where somebody asks them.
            actors: addresses of tasks that have a learner's environments, host:port.
        """
        self.num_workers, self.absent, self._failures = num_workers, absent, failures
        self._cluster = cluster
        self._servers = of_servers(cluster.tasks) if cluster else []
        self._actors = cluster.tasks("actor") if cluster else []
        self._missing_actors = MissingActors(actors, num_workers)
        self._lines: list[str] = []  # that people have not been shown
        self._reporting: set[int] = set()
        self._never_there = set(absent)
        self.pulses, self.gone, self.reported_at = pulses, set(absent), -math.inf

    def check(self) -> list[str]:
        """Starts workers and actors again that died; returns lines for people.

        Raises:
            TaskDiedError: one keeps dying.
            ClusterLostError: a server died.
        """
        said, self._lines = self._lines, []
        if self._cluster is None:
            return said
        for task in self._cluster.ended("actor"):
            self._failures.noticed(task, LOST)
        lines = self._cluster.check("worker") + self._cluster.check("actor")
        if lost := of_servers(self._cluster.ended):
            raise ClusterLostError(f"lost {lost[0]}")
        return said + lines

    def reported(self, worker: int, actors: int = 0, absent_actor: int = -1) -> None:
        """A worker has been heard of; and so have, by way of it, the parameter servers.

        Args:
            worker: its index.
            actors: tasks of those whose environments it acts in that were there.
            absent_actor: the first of those that were not, as the worker numbers them.
        """
        self.reported_at = time.monotonic()
        self._reporting.add(worker)
        self.gone.discard(worker)
        self._never_there.discard(worker)
        self._failures.work([Task("worker", worker)])
        self._lines += self._missing_actors.hear(worker, actors, absent_actor)
        if self._cluster is not None:
            self._cluster.are_well(Task("worker", worker), *self._servers)
            own = self._actors[worker :: self.num_workers]
            if own and actors == len(own):
                self._cluster.are_well(*own)
                self._failures.work(own)

    def lost(self, worker: int) -> None:
        """A worker is gone, until it reports again."""
        self._reporting.discard(worker)
        self._missing_actors.forget(worker)
        self.gone.add(worker)
        if worker not in self._never_there:
            self._failures.noticed(Task("worker", worker), LOST)

    def last_words(self, worker: int) -> str:
        """The end of a worker's log, where it is at hand; else where to look."""
        if self._cluster is None:
            return "its log says how"
        return self._cluster.last_words(Task("worker", worker))

    @property
    def others(self) -> int:
        """How many workers go on where one that has not contributed yet cannot be used."""
        return len(self._reporting) if self.num_workers > 1 else 0

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
                "replay": _role(
                    "ps_dqn.replay_server", serve_replay, threads, worker_dir=worker_dir
                ),
                "actor": _role("ps_dqn.actor", serve_actor, None, worker_dir=worker_dir),
            },
            folder / directory.LOGS,
            placement.start_method,
            forks_again=placement.restart,
        )
        with local.running(cluster, say, timeline.span):
            yield cluster
        return
    if placement.kind == "in_process":
        from ps_dqn.coordinator.supervision.hosts import make_host, serve_actors
        from ps_dqn.wire import bridge

        bridge.install(functools.partial(make_host, placement.spec, worker_dir))
        timeline.share()
        with timeline.span("starting tasks"):
            in_process.start(
                placement.spec,
                intra_op_threads=threads[0],
                inter_op_threads=threads[1],
                pulse_of=lambda task: pulse.encode(
                    bridge.pulse(bridge.number(placement.spec.place(task)))
                ),
            )
        with serve_actors(placement.spec):
            yield None
        return
    yield None


def _role(
    module: str, serve: Callable[..., Any], threads: tuple[int, int] | None, **others: object
) -> local.Role:
    """How tasks of a kind are run; with thread pools, where they have TensorFlow."""
    pools = dict(zip(("intra_op_threads", "inter_op_threads"), threads or (), strict=False))

    def serve_with_options(spec: ClusterSpec, task: Task) -> None:
        texts = {name: str(each) for name, each in others.items()}
        serve(spec, task, TaskOptions(**pools), **texts)

    arguments = tuple(f"--{name}={each}" for name, each in {**pools, **others}.items())
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
