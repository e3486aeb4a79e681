"""An actor task.

Its place comes from TF_CONFIG or flags; what to act in arrives from its learner. It imports no
TensorFlow: it serves at its address without, and says what it is at like every task.
"""

import math
import os
import pathlib
import signal
import threading
import time
from typing import TYPE_CHECKING, NoReturn

from ps_dqn.cluster.spec import ClusterSpec, Task, TaskOptions
from ps_dqn.profiling import timeline

if TYPE_CHECKING:
    from ps_dqn.actor.host import ActorHost
    from ps_dqn.telemetry.pulse import Pulse

JOB = "actor"
# How long a signal may wait to be noticed, and a new connection to be looked after (seconds).
POLL_SECONDS, CONNECTIONS_SECONDS = 0.05, 2.0


def serve(spec: ClusterSpec, task: Task, options: TaskOptions, worker_dir: str = "") -> NoReturn:
    """Serves until SIGTERM.

    Args:
        spec: the cluster.
        task: this task of it.
        options: where it answers probes; it has no thread pools.
        worker_dir: where this task may write failures of environments down; nowhere if empty.

    Raises:
        HealthError: health cannot be served.
    """
    from ps_dqn.cluster import server

    timeline.begin("starting the process")
    server.leave_when_told()
    with timeline.span("importing what it hosts"):
        from ps_dqn.actor.host import ActorHost
        from ps_dqn.cluster import connections, health, ordinal, pulse, streams
        from ps_dqn.environments import overdue
        from ps_dqn.telemetry import prometheus
        from ps_dqn.telemetry.pulse import encode

    streams.forgive()
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: signals.append(number))
    # Ctrl-C reaches every process of a terminal; the coordinator decides what follows from it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    address = spec.addresses(JOB)[task.index]
    overdue.watch()
    folder = pathlib.Path(worker_dir) / f"actor-{task.index}" if worker_dir else None
    failures = str(folder / "env_failures") if folder else ""
    host = ActorHost(int(address.rpartition(":")[2]), failures)
    if options.health_port:
        collector = prometheus.actor(lambda: host.figures)
        health.start(options.health_port, host.is_alive, host.is_alive, collector)
    pulse.serve(address, lambda: encode(_pulse(host)) | {"timeline": timeline.briefly()})
    looked_at = -math.inf
    while not signals:
        if time.monotonic() > looked_at + CONNECTIONS_SECONDS:
            connections.end_silent_ones()
            looked_at = time.monotonic()
        time.sleep(POLL_SECONDS)
    closing = threading.Thread(target=host.close, daemon=True)
    closing.start()
    closing.join(server.STOP_SECONDS)  # an environment may hang
    os._exit(128 + signal.SIGTERM if ordinal.is_of_a_job() else 0)


def _pulse(host: "ActorHost") -> "Pulse":
    """What it is at, for people."""
    from ps_dqn.telemetry.pulse import Pulse

    figures = host.figures
    return Pulse(phase="serving" if figures.connected else "waiting", env_steps=figures.env_steps)
