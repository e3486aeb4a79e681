"""One run on one cluster.

The order matters: TensorFlow is imported once its output goes to a log file, and local tasks are
forked after that import but before TensorFlow makes anything.
"""

import contextlib
import dataclasses
import functools
import math
import pathlib
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console

from cluster import health, in_process, local, remote
from cluster.spec import ClusterSpec, Placement, Task
from ps_dqn import (
    display,
    environments,
    exporter,
    parameter_server,
    replay_memory,
    replay_plan,
    run_directory,
    terminal,
    worker,
)
from ps_dqn.checkpoints import Checkpoint, Checkpoints
from ps_dqn.config import Config
from ps_dqn.endings import FAILED, START_AGAIN, STOPPED, WRONG_USAGE, Signals
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import ClusterLostError, UsageError, WorkerError
from ps_dqn.vitals import Vitals


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
    run_directory.create(command.folder)
    checkpoints = Checkpoints(
        command.folder / run_directory.CHECKPOINTS, command.config.run.keep_checkpoints
    )
    resumed = checkpoints.newest()
    (command.folder / run_directory.FLAGFILE).write_text(command.flagfile)
    log = command.folder / run_directory.LOGS / "coordinator.log"
    console = terminal.redirect_to(log)
    for warning in heard:
        print(warning.message, file=sys.stderr)  # the log by now
    _announce(console, command, environment, memory, resumed)
    signals = Signals()
    try:
        with _tasks(command) as cluster:
            return _train(command, environment, checkpoints, resumed, cluster, console, signals)
    except UsageError as error:
        _say(console, f"error: {error}")  # standard error is the log by now
        return WRONG_USAGE
    except (local.TaskDiedError, WorkerError, ClusterLostError) as error:
        _say(console, f"error: {error}")
        if isinstance(error, ClusterLostError) and command.placement.kind == "remote":
            _say(console, f"exit code {START_AGAIN}: started again, the run goes on")
            return START_AGAIN
    except Exception as error:
        traceback.print_exc()  # into the log
        _say(console, f"error: {type(error).__name__}: {error}; {log} has the whole of it")
    if run_directory.has_checkpoint(command.folder):
        _say(console, f"--resume --run_dir={command.folder} goes on from the last checkpoint")
    return FAILED


def _train(
    command: Command,
    environment: EnvironmentSpec,
    checkpoints: Checkpoints,
    resumed: Checkpoint | None,
    cluster: local.LocalCluster | None,
    console: Console,
    signals: Signals,
) -> int:
    from ps_dqn import connection, networks, results
    from ps_dqn.closures import Closures
    from ps_dqn.parameters import ParameterStore
    from ps_dqn.scheduling import Schedule
    from ps_dqn.training import Tasks, Training
    from ps_dqn.writers import Writers

    config, spec = command.config, command.placement.spec
    num_workers = len(spec.workers)
    vitals = Vitals(config, num_workers)
    own = _serve_health(command.placement, vitals)
    if command.placement.kind == "remote":
        remote.wait_until_serving(spec, functools.partial(_say, console))
    coordinator = connection.connect(command.placement)
    own.started()
    network = networks.build(config.network, config.value, environment, config.run.seed)
    store = ParameterStore(config, len(spec.ps), num_workers, network.initial)
    if resumed is not None:
        _restore(store, resumed)
    closures = Closures(
        config,
        environment,
        store,
        network,
        run_directory.identity(command.folder, is_new=resumed is None),
    )
    most = num_workers * (config.parameter_server.closures_per_worker + 1) + 1
    schedule = Schedule(coordinator, most, in_order=num_workers == 1)
    writers = Writers(command.folder, store.counters())
    screen = display.make(console, config.run.log_interval)
    target_return = _target_return(config, environment)
    training = Training(
        config,
        target_return,
        store,
        closures,
        schedule,
        Tasks(
            num_workers,
            check=cluster.check if cluster else lambda: [],
            workers_alive=(lambda: cluster.alive("worker")) if cluster else None,
        ),
        checkpoints,
        writers,
        screen,
        vitals,
    )
    signals.on_stop(training.ask_to_stop)
    start_seconds = time.perf_counter() - command.started
    try:
        result = training.run()
    except ClusterLostError:
        if cluster is not None:
            cluster.check()  # knows which task it was, and raises
        raise
    finally:
        vitals.enter("ended")
        screen.close()
        writers.close()
        schedule.close()
    total_seconds = time.perf_counter() - command.started
    summary = results.summarize(config, result, start_seconds, total_seconds)
    results.show(console, summary, command.folder)
    results.save(command.folder, summary, target_return, checkpoints, network)
    return signals.exit_code(is_over=result.reason != STOPPED)


def _serve_health(placement: Placement, vitals: Vitals) -> health.OwnServer:
    """Answers probes, where that is asked for; of the coordinator's own server, which is to start.

    Raises:
        UsageError: the port cannot be used, or a package is missing.
    """
    own = health.OwnServer(placement.spec.chief)
    if placement.health_port:
        collector = exporter.coordinator(vitals.read)
        try:
            health.start(placement.health_port, own.is_alive, own.is_ready, collector)
        except health.HealthError as error:
            raise UsageError(f"--health_port: {error}") from None
    return own


@contextlib.contextmanager
def _tasks(command: Command) -> Iterator[local.LocalCluster | None]:
    """The workers and parameter servers, where they are ours to start."""
    from ps_dqn import training  # noqa: F401 - imports TensorFlow, once for every fork

    placement = command.placement
    threads = (placement.intra_op_threads, placement.inter_op_threads)
    worker_dir = command.folder / run_directory.WORKER_FILES
    if placement.kind == "local":
        cluster = local.LocalCluster(
            placement.spec,
            {
                "worker": _role("ps_dqn.worker", worker.serve, threads, worker_dir=worker_dir),
                "ps": _role("ps_dqn.parameter_server", parameter_server.serve, threads),
            },
            command.folder / run_directory.LOGS,
            placement.start_method,
        )
        with local.running(cluster):
            yield cluster
        return
    if placement.kind == "in_process":
        from ps_dqn import bridge, hosts

        bridge.install(functools.partial(hosts.make, worker_dir=worker_dir))
        in_process.start(placement.spec, intra_op_threads=threads[0], inter_op_threads=threads[1])
    yield None


def _role(
    module: str, serve: Callable[..., Any], threads: tuple[int, int], **others: object
) -> local.Role:
    def serve_with_options(spec: ClusterSpec, task: Task) -> None:
        serve(spec, task, *threads, **{name: str(each) for name, each in others.items()})

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
    if replay_memory.is_share(memory):
        nbytes = replay_memory.parse(memory) // num_workers
        if is_remote:  # each worker knows what it has
            return config, [f"each worker's replay: {memory} of its memory"]
        replay = dataclasses.replace(config.replay, replay_memory=str(nbytes))
        config = dataclasses.replace(config, replay=replay)
    plan = replay_plan.make(config, environment)
    if not is_remote and not config.replay.replay_files:
        plan.check_memory(num_workers)
    return config, [plan.describe()]


def _announce(
    console: Console,
    command: Command,
    environment: EnvironmentSpec,
    memory: list[str],
    resumed: Checkpoint | None,
) -> None:
    config, spec, placement = command.config, command.placement.spec, command.placement
    where = {
        "local": "processes of this machine",
        "in_process": "this process",
        "remote": "remote tasks",
    }
    shape = "×".join(str(size) for size in environment.observation_shape) or "1"
    lines = [
        f"{config.environment.env_id}: observations {shape}, {environment.num_actions} actions; "
        f"{len(spec.workers)} workers × {config.environment.num_envs_per_worker} environments, "
        f"{len(spec.ps)} parameter servers, {where[placement.kind]}",
        *memory,
        f"run directory {command.folder}",
    ]
    if resumed is not None:
        counters = resumed.state.counters
        lines.append(
            f"resumed at {counters.env_steps:,} env steps, {counters.updates:,} updates from "
            f"{resumed.path.name}"
            + ("; replay starts empty" if memory and not config.replay.replay_files else "")
        )
    for line in lines:
        _say(console, line)


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _restore(store: Any, checkpoint: Checkpoint) -> None:
    try:
        store.restore(checkpoint.state)
    except ValueError as error:
        raise UsageError(
            f"checkpoint {checkpoint.path} does not fit these flags: {error}. Use the flags it was "
            f"made with, or another --run_dir"
        ) from None


def _target_return(config: Config, environment: EnvironmentSpec) -> float:
    if config.run.target_return is not None:
        return config.run.target_return
    threshold = environment.reward_threshold
    return math.inf if threshold is None else threshold
