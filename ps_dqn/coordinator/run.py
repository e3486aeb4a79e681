"""One run on one cluster.

The order matters: TensorFlow is imported once its output goes to a log file, and local tasks are
forked after that import but before TensorFlow makes anything.
"""

import contextlib
import dataclasses
import functools
import pathlib
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from cluster import health, in_process, local
from cluster.spec import ClusterSpec, Placement, Task, TaskOptions
from ps_dqn import environments
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import ClusterLostError, UsageError, WorkerError
from ps_dqn.parameter_server.task import serve as serve_parameters
from ps_dqn.replay import budget
from ps_dqn.replay import plan as planning
from ps_dqn.run import directory, terminal
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.signals import FAILED, WRONG_USAGE, Signals
from ps_dqn.telemetry import prometheus
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.worker.task import serve as serve_worker


@dataclasses.dataclass(frozen=True)
class Command:
    """What the command line asked for."""

    config: Config
    placement: Placement
    folder: pathlib.Path
    flagfile: str  # its text
    started: float  # time.perf_counter() when the command began


def run(command: Command) -> int:
    """Runs the command; returns the exit code.

    Raises:
        UsageError: the environment or the run directory cannot be used; no task was started.
    """
    with warnings.catch_warnings(record=True) as heard:
        environment = environments.describe(command.config.environment)
    config, memory = plan_replay(command, environment)
    command = dataclasses.replace(command, config=config)
    directory.create(command.folder)
    checkpoints = Checkpoints(
        command.folder / directory.CHECKPOINTS, command.config.run.keep_checkpoints
    )
    resumed = checkpoints.newest()
    (command.folder / directory.FLAGFILE).write_text(command.flagfile)
    log = command.folder / directory.LOGS / "coordinator.log"
    console = terminal.redirect_to(log)
    for warning in heard:
        print(warning.message, file=sys.stderr)  # the log by now
    say = functools.partial(terminal.say, console)
    say(_announcement(command, environment))
    for line in [*memory, f"run directory {command.folder}"]:
        say(line)
    vitals = Vitals(config, len(command.placement.spec.workers))
    signals = Signals()
    try:
        with _tasks(command) as cluster:
            from ps_dqn.coordinator import reconnect

            return reconnect.train(
                reconnect.Run(
                    config,
                    environment,
                    command.placement,
                    command.folder,
                    checkpoints,
                    cluster,
                    console,
                    signals,
                    vitals,
                    _serve_health(command.placement, vitals),
                    command.started,
                ),
                resumed,
            )
    except (UsageError, health.HealthError) as error:
        say(f"error: {error}")  # standard error is the log by now
        return WRONG_USAGE
    except (local.TaskDiedError, WorkerError, ClusterLostError) as error:
        say(f"error: {error}")
        if isinstance(error, ClusterLostError) and signals.received:
            return signals.exit_code(is_over=False)  # everything was told to stop
    except Exception as error:
        traceback.print_exc()  # into the log
        say(f"error: {type(error).__name__}: {error}; {log} has the whole of it")
    if directory.has_checkpoint(command.folder):
        say(f"--resume --run_dir={command.folder} goes on from the last checkpoint")
    return FAILED


def _serve_health(placement: Placement, vitals: Vitals) -> health.OwnServer:
    """Answers probes, where that is asked for; of the coordinator's own server, which is to start.

    Raises:
        HealthError: the port cannot be used, or a package is missing.
    """
    own = health.OwnServer(placement.spec.chief)
    if placement.health_port:
        collector = prometheus.coordinator(vitals.read)
        health.start(placement.health_port, own.is_alive, own.is_ready, collector)
    return own


@contextlib.contextmanager
def _tasks(command: Command) -> Iterator[local.LocalCluster | None]:
    """The workers and parameter servers, where they are ours to start."""
    from ps_dqn.coordinator import reconnect  # noqa: F401 - imports TensorFlow, once for every fork

    placement = command.placement
    threads = (placement.intra_op_threads, placement.inter_op_threads)
    worker_dir = command.folder / directory.WORKER_FILES
    if placement.kind == "local":
        cluster = local.LocalCluster(
            placement.spec,
            {
                "worker": _role("ps_dqn.worker", serve_worker, threads, worker_dir=worker_dir),
                "ps": _role("ps_dqn.parameter_server", serve_parameters, threads),
            },
            command.folder / directory.LOGS,
            placement.start_method,
        )
        with local.running(cluster):
            yield cluster
        return
    if placement.kind == "in_process":
        from ps_dqn.parameter_server.host import ParameterHost
        from ps_dqn.wire import bridge
        from ps_dqn.worker.host import WorkerHost

        bridge.install(lambda task: WorkerHost(task, worker_dir) if task >= 0 else ParameterHost())
        in_process.start(placement.spec, intra_op_threads=threads[0], inter_op_threads=threads[1])
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


def plan_replay(command: Command, environment: EnvironmentSpec) -> tuple[Config, list[str]]:
    """Refuses replay that cannot be kept here.

    Returns:
        The experiment, with shares of this machine's memory in bytes; what people should know.
    """
    config, num_workers = command.config, len(command.placement.spec.workers)
    if config.replay.replay == "rollout":
        return config, []
    memory = config.replay.replay_memory
    is_remote = command.placement.kind == "remote"
    if budget.is_share(memory):
        nbytes = budget.parse(memory) // num_workers
        if is_remote:  # each worker knows what it has
            return config, [f"each worker's replay: {memory} of its memory"]
        replay = dataclasses.replace(config.replay, replay_memory=str(nbytes))
        config = dataclasses.replace(config, replay=replay)
    plan = planning.plan_replay(config, environment)
    if not is_remote and not config.replay.replay_files:
        plan.check_memory(num_workers)
    return config, [plan.describe()]


def _announcement(command: Command, environment: EnvironmentSpec) -> str:
    config, spec, placement = command.config, command.placement.spec, command.placement
    where = {
        "local": "processes of this machine",
        "in_process": "this process",
        "remote": "remote tasks",
    }
    shape = "×".join(str(size) for size in environment.observation_shape) or "1"
    return (
        f"{config.environment.env_id}: observations {shape}, {environment.num_actions} actions; "
        f"{len(spec.workers)} workers × {config.environment.num_envs_per_worker} environments, "
        f"{len(spec.ps)} parameter servers, {where[placement.kind]}"
    )
