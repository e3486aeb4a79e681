"""Who is in the cluster and which of them this process is: TF_CONFIG or flags, validated."""

import collections
import dataclasses
import errno
import json
import os
import re
import socket
from collections.abc import Sequence

import portpicker

JOBS = ("chief", "ps", "worker")
# Tasks of a kind that are started on one machine, each a process of hundreds of megabytes.
MOST_LOCAL = 256
# A name, an IPv4 address, or an IPv6 address in brackets.
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]")


# In a task's environment: its port and the descriptor that holds it, as port=descriptor.
RESERVATION_VARIABLE = "PS_DQN_RESERVED_PORT"
_reserved: dict[int, int] = {}  # sockets by port


class ClusterSpecError(ValueError):
    """The description of the cluster cannot be used; the text is one line for a person."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One process's place: a job of `JOBS`, or `evaluator`, and its number in that job."""

    job: str
    index: int

    def __str__(self) -> str:
        names = {"ps": "parameter server", "chief": "coordinator"}
        return f"{names.get(self.job, self.job)} {self.index}"


@dataclasses.dataclass(frozen=True)
class ClusterSpec:
    """The gRPC addresses (`host:port`) of one coordinator, its workers and parameter servers."""

    chief: str
    ps: tuple[str, ...]
    workers: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuses a cluster that cannot run.

        Raises:
            ClusterSpecError: no chief, ps or worker; a malformed or a repeated address.
        """
        if not self.chief:
            raise ClusterSpecError("no chief in the cluster: the coordinator needs an address")
        if not self.ps:
            raise ClusterSpecError("no ps in the cluster: at least one parameter server is needed")
        if not self.workers:
            raise ClusterSpecError("no worker in the cluster: at least one is needed")
        addresses = [self.chief, *self.ps, *self.workers]
        for address in addresses:
            _check_address(address)
        address, count = collections.Counter(addresses).most_common(1)[0]
        if count > 1:
            raise ClusterSpecError(
                f"address {address} is given to {count} tasks: each needs its own"
            )

    def as_dict(self) -> dict[str, list[str]]:
        """The form TensorFlow takes."""
        return {"chief": [self.chief], "ps": list(self.ps), "worker": list(self.workers)}

    def addresses(self, job: str) -> tuple[str, ...]:
        """The addresses of one job, in task order."""
        return tuple(self.as_dict().get(job, ()))

    def tasks(self) -> tuple[Task, ...]:
        """Every task but the coordinator, parameter servers first."""
        return tuple(
            Task(job, index)
            for job in ("ps", "worker")
            for index in range(len(self.addresses(job)))
        )

    def tf_config(self, task: Task) -> str:
        """The TF_CONFIG that tells one task its place."""
        return json.dumps(
            {"cluster": self.as_dict(), "task": {"type": task.job, "index": task.index}}
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


def tasks_there(spec: ClusterSpec, new: Sequence[Task], there: int) -> str:
    """A line for people: which tasks have come, and how many are there.

    Args:
        spec: of the cluster.
        new: those that people have not heard of, one at least.
        there: tasks that are there, these among them.
    """
    of_all = f"{there} of {len(spec.tasks())} tasks"
    if len(new) == 1 and new[0].job == "worker":
        return f"{new[0]} of {len(spec.workers)} is up ({of_all})"
    if len(new) == 1:
        return f"{new[0]} is up ({of_all})"
    if len(new) <= 4:
        *first, last = map(str, new)
        return f"{', '.join(first)} and {last} are up ({of_all})"
    return f"{len(new)} more tasks are up ({of_all})"


def on_this_machine(num_ps: int, num_workers: int) -> ClusterSpec:
    """A cluster of free local ports, which are this process's until it ends.

    Raises:
        ClusterSpecError: more tasks than a machine has room for.
    """
    for flag, count in (("num_ps", num_ps), ("num_workers", num_workers)):
        if count > MOST_LOCAL:
            raise ClusterSpecError(
                f"--{flag}={count}: at most {MOST_LOCAL} of a kind start on one machine, a process "
                f"each; start them on several and say --cluster=remote"
            )
    ports = [_reserved_port() for _ in range(1 + num_ps + num_workers)]
    chief, *rest = [f"localhost:{port}" for port in ports]
    return ClusterSpec(chief, tuple(rest[:num_ps]), tuple(rest[num_ps:]))


def _reserved_port() -> int:
    """A free port that no other cluster on this machine is given.

    Tasks bind it for TCP some seconds later, when another cluster may have been given it too. As
    portpicker offers a port only while it is free for UDP as well, a socket for that holds it.
    """
    while True:
        port = portpicker.pick_unused_port()
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("", port))
        except OSError as error:
            reservation.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue  # another cluster was quicker
        _reserved[port] = reservation.detach()  # held for as long as this process lives
        return port


def reservation(address: str) -> int | None:
    """The descriptor of the socket for datagrams that holds a port, where this process has it.

    Args:
        address: of a task, host:port.
    """
    port = int(address.rpartition(":")[2])
    passed, _, descriptor = os.environ.get(RESERVATION_VARIABLE, "").partition("=")
    return int(descriptor) if passed == str(port) else _reserved.get(port)


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
    spec = ClusterSpec(
        next(iter(jobs.get("chief", [])), ""),
        tuple(jobs.get("ps", [])),
        tuple(jobs.get("worker", [])),
    )
    return spec, _task_of(config, spec)


# In an address: the number of each of a job's tasks.
NUMBER = "{}"


def is_numbered(addresses: Sequence[str]) -> bool:
    """Whether an address stands for several, one for each number."""
    return any(NUMBER in address for address in addresses)


def numbered(addresses: Sequence[str], count: int) -> tuple[str, ...]:
    """One job's addresses: as they are given, or those that a single one with `{}` stands for.

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
    return tuple(addresses[0].replace(NUMBER, str(i)) for i in range(count))


def from_hosts(
    chief: str, ps: Sequence[str], workers: Sequence[str], task: Task
) -> tuple[ClusterSpec, Task]:
    """A cluster of given addresses and one task's place in it.

    Raises:
        ClusterSpecError: the cluster cannot run or has no such task.
    """
    spec = ClusterSpec(chief, tuple(ps), tuple(workers))
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
