"""Who is in the cluster and which of them this process is: TF_CONFIG or flags, validated."""

import collections
import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

JOBS = ("chief", "ps", "replay", "worker", "actor")
# Jobs without any one of whose tasks nobody trains.
SERVERS = ("ps", "replay")
Found = TypeVar("Found")
# A name, an IPv4 address, or an IPv6 address in brackets.
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]")


def of_servers(each: Callable[[str], Iterable[Found]]) -> list[Found]:
    """What is found for each job of servers, one after the other."""
    return [found for job in SERVERS for found in each(job)]


class ClusterSpecError(ValueError):
    """The description of the cluster cannot be used; the text is one line for a person."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One process's place: a job of `JOBS`, or `evaluator`, and its number in that job."""

    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.role} {self.index}"

    @property
    def role(self) -> str:
        """The job as people call it."""
        names = {"ps": "parameter server", "replay": "replay server", "chief": "coordinator"}
        return names.get(self.job, self.job)


@dataclasses.dataclass(frozen=True)
class ClusterSpec:
    """The gRPC addresses (`host:port`) of one coordinator, its workers and its servers, if any.

    TensorFlow knows parameter servers and workers alone, so to it replay servers are the last of
    the parameter servers: `place` and `task_at` go from our names to its own and back. Of actors it
    knows nothing: they serve learners alone, without TensorFlow.
    """

    chief: str
    ps: tuple[str, ...]
    workers: tuple[str, ...]
    replay: tuple[str, ...] = ()  # where actors and learners share one
    actors: tuple[str, ...] = ()  # where learners act for tasks without a network

    def __post_init__(self) -> None:
        """Refuses a cluster that cannot run.

        Raises:
            ClusterSpecError: no chief or worker; a malformed or a repeated address.
        """
        if not self.chief:
            raise ClusterSpecError("no chief in the cluster: the coordinator needs an address")
        if not self.workers:
            raise ClusterSpecError("no worker in the cluster: at least one is needed")
        addresses = [self.chief, *self.ps, *self.replay, *self.workers, *self.actors]
        for address in addresses:
            _check_address(address)
        address, count = collections.Counter(addresses).most_common(1)[0]
        if count > 1:
            raise ClusterSpecError(
                f"address {address} is given to {count} tasks: each needs its own"
            )

    def as_dict(self) -> dict[str, list[str]]:
        """The form TensorFlow takes."""
        servers = [*self.ps, *self.replay]
        jobs = {"chief": [self.chief], "ps": servers, "worker": list(self.workers)}
        return {job: addresses for job, addresses in jobs.items() if addresses}

    def addresses(self, job: str) -> tuple[str, ...]:
        """The addresses of one job, in task order."""
        return tuple(self._jobs().get(job, ()))

    def place(self, task: Task) -> Task:
        """A task as TensorFlow knows it."""
        return Task("ps", len(self.ps) + task.index) if task.job == "replay" else task

    def task_at(self, place: Task) -> Task:
        """The task that TensorFlow knows so."""
        beyond = place.index - len(self.ps)
        return Task("replay", beyond) if place.job == "ps" and beyond >= 0 else place

    def _jobs(self) -> dict[str, list[str]]:
        jobs = {"chief": [self.chief], "ps": list(self.ps)}
        if self.replay:
            jobs["replay"] = list(self.replay)
        jobs["worker"] = list(self.workers)
        return jobs | ({"actor": list(self.actors)} if self.actors else {})

    def tasks(self) -> tuple[Task, ...]:
        """Every task of TensorFlow's but the coordinator, servers first."""
        return self._tasks_of(*SERVERS, "worker")

    def all_tasks(self) -> tuple[Task, ...]:
        """These and the actors."""
        return self._tasks_of(*SERVERS, "worker", "actor")

    def _tasks_of(self, *jobs: str) -> tuple[Task, ...]:
        return tuple(Task(job, index) for job in jobs for index in range(len(self.addresses(job))))

    def tf_config(self, task: Task) -> str:
        """The TF_CONFIG that tells one task its place."""
        return json.dumps(
            {"cluster": self._jobs(), "task": {"type": task.job, "index": task.index}}
        )

    def check_task(self, task: Task) -> None:
        """Refuses a task this cluster has no place for.

        Raises:
            ClusterSpecError: unknown job or index out of range.
        """
        if task.job == "evaluator":
            return
        if task.job not in JOBS:
            raise ClusterSpecError(
                f"task type {task.job!r} is unknown: must be one of {', '.join(JOBS)}, evaluator"
            )
        count = len(self.addresses(task.job))
        if not 0 <= task.index < count:
            raise ClusterSpecError(
                f"task index {task.index} is out of range: the cluster has {count} "
                f"{task.job} task{'s' if count > 1 else ''}, numbered from 0"
            )


@dataclasses.dataclass(frozen=True)
class TaskOptions:
    """How a worker or parameter server serves."""

    intra_op_threads: int = 1  # that one operation may use
    inter_op_threads: int = 2  # operations that may run at the same time
    health_port: int = 0  # where it answers probes; 0: nowhere


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where the coordinator's cluster is."""

    kind: str  # local, in_process or remote
    spec: ClusterSpec
    start_method: str
    intra_op_threads: int
    inter_op_threads: int
    health_port: int = 0
    restart: bool = False  # the coordinator, by a process that owns the tasks
    free_stateful_sets: tuple[str, ...] = ()  # of Kubernetes, when the run is over


def from_tf_config(text: str) -> tuple[ClusterSpec, Task]:
    """Reads TF_CONFIG: the cluster and this process's task in it.

    An `evaluator` entry is left out of the cluster: it must not take part in it.

    Raises:
        ClusterSpecError: the text is malformed or describes a cluster that cannot run.
    """
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ClusterSpecError(f"TF_CONFIG is not JSON: {error}") from None
    except RecursionError:
        raise ClusterSpecError("TF_CONFIG is nested too deeply to be a cluster") from None
    if not isinstance(config, dict) or not isinstance(config.get("cluster"), dict):
        raise ClusterSpecError('TF_CONFIG has no "cluster" object of jobs and addresses')
    jobs = dict(config["cluster"])
    jobs.pop("evaluator", None)
    for job, addresses in jobs.items():
        if job not in JOBS:
            raise ClusterSpecError(
                f"TF_CONFIG: job {job!r} is unknown: must be one of {', '.join(JOBS)}, evaluator"
            )
        if not isinstance(addresses, list):
            raise ClusterSpecError(f"TF_CONFIG: job {job!r} must be a list of addresses")
    if len(jobs.get("chief", [])) > 1:
        raise ClusterSpecError("TF_CONFIG: only one chief can coordinate a cluster")
    with _in_tf_config():
        spec = ClusterSpec(
            next(iter(jobs.get("chief", [])), ""),
            tuple(jobs.get("ps", [])),
            tuple(jobs.get("worker", [])),
            tuple(jobs.get("replay", [])),
            tuple(jobs.get("actor", [])),
        )
    return spec, _task_of(config, spec)


@contextlib.contextmanager
def _in_tf_config() -> Iterator[None]:
    """What is refused in the block is said to come from there."""
    try:
        yield
    except ClusterSpecError as error:
        raise ClusterSpecError(f"TF_CONFIG: {error}") from None


# In an address: the number of each of a job's tasks.
NUMBER = "{}"


def is_numbered(addresses: Sequence[str]) -> bool:
    """Whether an address stands for several, one for each number."""
    return any(NUMBER in address for address in addresses)


def numbered(addresses: Sequence[str], count: int, first: int = 0) -> tuple[str, ...]:
    """One job's addresses: as they are given, or those that a single one with `{}` stands for.

    Args:
        addresses: what is given.
        count: how many tasks one with `{}` stands for.
        first: the number of the first of them.

    Raises:
        ClusterSpecError: an address with `{}` is not the only one.
    """
    if not is_numbered(addresses):
        return tuple(addresses)
    if len(addresses) > 1:
        raise ClusterSpecError(
            f"{','.join(addresses)}: an address with {NUMBER} stands for all of a job's tasks and "
            f"must be the only one"
        )
    return tuple(addresses[0].replace(NUMBER, str(first + i)) for i in range(count))


def from_hosts(
    chief: str,
    ps: Sequence[str],
    workers: Sequence[str],
    task: Task,
    replay: Sequence[str] = (),
    actors: Sequence[str] = (),
) -> tuple[ClusterSpec, Task]:
    """A cluster of given addresses and one task's place in it.

    Raises:
        ClusterSpecError: the cluster cannot run or has no such task.
    """
    spec = ClusterSpec(chief, tuple(ps), tuple(workers), tuple(replay), tuple(actors))
    spec.check_task(task)
    return spec, task


def _task_of(config: dict, spec: ClusterSpec) -> Task:
    given = config.get("task")
    if not isinstance(given, dict) or "type" not in given:
        raise ClusterSpecError('TF_CONFIG has no "task" object with "type" and "index"')
    index = given.get("index", 0)
    if isinstance(index, bool) or not (isinstance(index, int) or _is_number(index)):
        raise ClusterSpecError(f"TF_CONFIG: task index {index!r} must be a whole number")
    task = Task(str(given["type"]), int(index))
    with _in_tf_config():
        spec.check_task(task)
    return task


def _is_number(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit()


def _check_address(address: object) -> None:
    host, _, port = str(address).rpartition(":")
    if not isinstance(address, str) or not _HOST.fullmatch(host) or not _is_number(port):
        raise ClusterSpecError(f"address {address!r} must be host:port, host a name or a number")
    if not 0 < int(port) < 2**16:
        raise ClusterSpecError(f"address {address!r}: port must be 1 to 65535")
