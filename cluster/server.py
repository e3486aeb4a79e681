"""One task of a cluster: a gRPC server that stops when it is told to."""

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ps_dqn.cluster import connections, health, ordinal, pulse, streams
from ps_dqn.cluster.ending import Requests
from ps_dqn.cluster.spec import ClusterSpec, Task, TaskOptions

# How long clean-up may take before the task leaves anyway (seconds): less than most nodes have
# from a notice to their end.
STOP_SECONDS = 12.0
# How long a signal may wait to be noticed, and a new connection to be looked after (seconds).
POLL_SECONDS, CONNECTIONS_SECONDS = 0.05, 2.0
# How long a task waits for its port while another process has it: a predecessor may be about to end
# (seconds).
PORT_SECONDS = 3.0


class PortError(ValueError):
    """A task's port belongs to another process; the text is one line for a person."""


def check_port(address: str) -> None:
    """Refuses the address of a task of this machine if another process serves there.

    TensorFlow would say so with a traceback, or not at all: two gRPC servers may share a port, of
    which each gets some of the connections.

    Raises:
        PortError: with the port.
    """
    port = int(address.rpartition(":")[2])
    deadline = time.monotonic() + PORT_SECONDS
    while True:
        with socket.socket() as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # of one that has just ended
            try:
                own.bind(("", port))
                return
            except OSError as error:
                reason = error.strerror
        if time.monotonic() > deadline:
            raise PortError(
                f"port {port} of {address} cannot be used here ({reason}): end the process that "
                f"has it, or give this task another address"
            )
        time.sleep(POLL_SECONDS)


def session_config(job: str, intra_op_threads: int, inter_op_threads: int) -> Any:
    """What a task has of its machine: thread pools, and GPUs if it is a worker.

    Small networks run faster on small pools. What parameter servers and replay servers hold is in
    main memory.
    """
    import tensorflow as tf

    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=intra_op_threads,
        inter_op_parallelism_threads=inter_op_threads,
        device_count={} if job == "worker" else {"GPU": 0},
    )


def start(spec: ClusterSpec, task: Task, config: Any) -> Any:
    """Starts the gRPC server of one task and returns it; keep it referenced."""
    import tensorflow as tf

    place = spec.place(task)
    return tf.distribute.Server(
        tf.train.ClusterSpec(spec.as_dict()),
        job_name=place.job,
        task_index=place.index,
        protocol="grpc",
        config=config,
    )


def leave_when_told() -> None:
    """Makes SIGTERM end this process at once, until `serve` listens to it.

    Process 1 of a container would ignore it while TensorFlow is imported.
    """
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(_exit_code()))


def _exit_code() -> int:
    return 128 + signal.SIGTERM if ordinal.is_of_a_job() else 0


def serve(
    spec: ClusterSpec,
    task: Task,
    options: TaskOptions,
    *,
    collector: Any = None,
    on_stop: Callable[[], None] | None = None,
    pulse_of: Callable[[], Mapping[str, Any] | None] | None = None,
    on_serving: Callable[[], None] | None = None,
) -> NoReturn:
    """Serves one task until SIGTERM, then leaves: once `on_stop` is done, or with a second one.

    Its exit code is 0, but 143 in a Kubernetes Job: there, 0 would say that its work is done.

    TensorFlow's own `Server.join()` waits in C++, where Python's signal handlers never run; here
    the main thread waits in Python instead. A TensorFlow server cannot be shut down in its
    process, so the process ends without running the C++ destructors that would wait for it.

    Args:
        spec: the cluster.
        task: this process's place in it.
        options: its threads, and where `health` is served.
        collector: of the task's metrics, for `health`.
        on_stop: ends what is under way and releases what the task holds beside the server.
        pulse_of: what the task is at, for who asks; see `pulse`.
        on_serving: called once it serves.

    Raises:
        HealthError: health cannot be served.
    """
    streams.forgive()
    own = health.OwnServer(spec.addresses(task.job)[task.index])
    if options.health_port:
        health.start(options.health_port, own.is_alive, own.is_ready, collector)
    requests, signals = Requests(), list[int]()

    def hear(number: int, _: object) -> None:
        if requests.is_another():
            signals.append(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, hear)
    # Ctrl-C reaches every process of a terminal; the coordinator decides what follows from it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threads = options.intra_op_threads, options.inter_op_threads
    _server = start(spec, task, session_config(task.job, *threads))
    own.started()
    if on_serving is not None:
        on_serving()
    if pulse_of is not None:
        pulse.serve(spec.addresses(task.job)[task.index], pulse_of)
    # Not a threading.Event: one of TensorFlow's threads may receive the signal, which does not
    # wake a lock, and a handler that sets an event can deadlock on that event's own lock.
    looked_at = -math.inf
    while not signals:
        if time.monotonic() > looked_at + CONNECTIONS_SECONDS:
            connections.end_silent_ones()
            looked_at = time.monotonic()
        time.sleep(POLL_SECONDS)
    if on_stop is not None:
        cleaner = threading.Thread(target=on_stop, daemon=True)
        cleaner.start()
        deadline = time.monotonic() + STOP_SECONDS
        while cleaner.is_alive() and len(signals) == 1 and time.monotonic() < deadline:
            cleaner.join(POLL_SECONDS)

    os._exit(_exit_code())
