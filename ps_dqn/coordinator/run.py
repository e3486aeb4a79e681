"""One run on its cluster, put together: from connecting to the table at its end."""

import dataclasses
import math
import pathlib
import time

from rich.console import Console

from cluster import health, local, remote
from cluster.spec import Placement
from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.coordinator import connection, summary
from ps_dqn.coordinator.dispatch import Schedule
from ps_dqn.coordinator.loop import Result, Training
from ps_dqn.coordinator.saving import Saving
from ps_dqn.coordinator.tasks import Tasks
from ps_dqn.coordinator.watchdog import Watchdog
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import ClusterLostError, UsageError
from ps_dqn.networks.network import QNetwork
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.run import directory, terminal
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.run.signals import FAILED, STOPPED, Signals
from ps_dqn.telemetry import display
from ps_dqn.telemetry.observer import Observer
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.telemetry.writers import Writers
from ps_dqn.worker.closures import Closures


@dataclasses.dataclass(frozen=True)
class RunContext:
    """What a run has before it connects, and keeps when it connects again."""

    config: Config
    environment: EnvironmentSpec
    placement: Placement
    folder: pathlib.Path
    checkpoints: Checkpoints
    cluster: local.LocalCluster | None  # the tasks, where they are ours
    console: Console
    signals: Signals
    vitals: Vitals
    own_server: health.OwnServer
    watchdog: Watchdog
    started: float  # time.perf_counter() when the command began

    def say(self, line: str) -> None:
        """A line for people."""
        terminal.say(self.console, line)


def train(context: RunContext, resumed: Checkpoint | None, reconnecting: bool) -> int:
    """Connects, puts the run together and trains to its end; returns the exit code.

    Args:
        context: what there is already.
        resumed: the checkpoint to go on from.
        reconnecting: an earlier connection of this process was lost.

    Raises:
        UsageError: the checkpoint does not fit the flags.
        WorkerError: hosted Python raised.
        ClusterLostError: a task is gone.
        TaskDiedError: likewise, where the tasks are ours.
    """
    config, environment, spec = context.config, context.environment, context.placement.spec
    num_workers = len(spec.workers)
    coordinator = _connect(context, resumed, reconnecting)

    network = networks.build(config.network, config.value, environment, config.run.seed)
    store = ParameterStore(config, len(spec.ps), num_workers, network.initial)
    if resumed is not None:
        _restore(store, resumed)
    run_id = directory.identity(context.folder, is_new=resumed is None)
    closures = Closures(config, environment, store, network, run_id)
    most = num_workers * (config.parameter_server.closures_per_worker + 1) + 1
    schedule = Schedule(coordinator, most, in_order=num_workers == 1)
    writers = Writers(context.folder, store.counters())
    screen = display.make(context.console, config.run.log_interval)
    observer = Observer(context.vitals, screen, writers)
    training = Training(
        config,
        _target_return(config, environment),
        store,
        closures,
        schedule,
        Tasks(num_workers, context.cluster),
        Saving(store, context.checkpoints, observer.disk, config.run.checkpoint_period),
        observer,
    )

    context.watchdog.follow(schedule.in_flight)
    context.signals.on_stop(training.request_stop)
    start_seconds = time.perf_counter() - context.started
    try:
        result = training.run()
    finally:
        context.watchdog.follow(None)
        observer.close()
        schedule.close()
    context.signals.left_tasks()
    _conclude(context, result, start_seconds, network, observer.disk)
    for error in result.errors:
        context.say(f"error: {error}")
    if result.errors:
        return FAILED
    return context.signals.exit_code(is_over=result.reason != STOPPED)


def _connect(context: RunContext, resumed: Checkpoint | None, reconnecting: bool) -> object:
    """The `ClusterCoordinator` of the tasks, once all of them answer."""
    context.vitals.begin()
    if resumed is not None:
        context.say(_resumption(context.config, resumed))
    if context.placement.kind == "remote":
        limit = context.config.faults.ps_recovery_timeout if reconnecting else math.inf
        try:
            remote.wait_until_serving(context.placement.spec, context.say, limit)
        except TimeoutError as error:
            raise ClusterLostError(f"{error} (--ps_recovery_timeout)") from None
    coordinator = connection.connect(context.placement, reconnecting)
    context.own_server.started()
    return coordinator


def _resumption(config: Config, resumed: Checkpoint) -> str:
    counters = resumed.state.counters
    forgets = config.replay.replay != "rollout" and not config.replay.replay_files
    return (
        f"resumed at {counters.env_steps:,} env steps, {counters.updates:,} updates from "
        f"{resumed.path.name}" + ("; replay starts empty" if forgets else "")
    )


def _restore(store: ParameterStore, checkpoint: Checkpoint) -> None:
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


def _conclude(
    context: RunContext, result: Result, start_seconds: float, network: QNetwork, disk: Disk
) -> None:
    """Shows and saves what came of the run."""
    total_seconds = time.perf_counter() - context.started
    content = summary.summarize(context.config, result, start_seconds, total_seconds)
    summary.show(context.console, content, context.folder)
    target_return = _target_return(context.config, context.environment)
    summary.save(context.folder, content, target_return, context.checkpoints, network, disk)
