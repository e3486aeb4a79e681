"""A run on its cluster, from connecting to the end; again where a task was lost and comes back.

Where others start the tasks, they start a parameter server that died again, and this process goes
on from the newest checkpoint with a new connection.
"""

import dataclasses
import functools
import math
import pathlib
import time

from rich.console import Console

from cluster import health, local, remote
from cluster.spec import Placement
from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.coordinator import connection
from ps_dqn.coordinator.dispatch import Schedule
from ps_dqn.coordinator.loop import Tasks, Training
from ps_dqn.coordinator.summary import save, show, summarize
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import ClusterLostError, UsageError
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.run import directory, terminal
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints
from ps_dqn.run.signals import STOPPED, Signals
from ps_dqn.telemetry import display
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.telemetry.writers import Writers
from ps_dqn.worker.closures import Closures

# Attempts in a row that may end before a step was made: what ends so is not a server that died.
MOST_IN_VAIN = 3


@dataclasses.dataclass(frozen=True)
class Run:
    """What stays the same from one attempt to the next."""

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
    started: float  # time.perf_counter() when the command began

    def say(self, line: str) -> None:
        """A line for people."""
        terminal.say(self.console, line)


def train(run: Run, resumed: Checkpoint | None) -> int:
    """Trains to the end; returns the exit code.

    Args:
        run: what is to be done.
        resumed: the checkpoint to go on from.

    Raises:
        UsageError: the checkpoint does not fit the flags.
        WorkerError: hosted Python raised.
        ClusterLostError: a task is gone that nobody starts again, or nothing comes of it.
        TaskDiedError: likewise, where the tasks are ours.
    """
    in_vain, again = 0, False
    while True:
        before = resumed.state.counters.env_steps if resumed else 0
        try:
            return _attempt(run, resumed, again)
        except ClusterLostError as error:
            run.signals.on_stop(None)  # nothing trains; until then a signal lets results be saved
            if run.cluster is not None:
                run.cluster.check()  # knows which task it was, and raises
            in_vain = 0 if run.vitals.env_steps > before else in_vain + 1
            may_come_back = run.placement.kind == "remote" and not run.signals.received
            if not may_come_back or in_vain == MOST_IN_VAIN:
                raise
            run.say(f"{error}; connecting anew")
        again, resumed = True, run.checkpoints.newest()


def _attempt(run: Run, resumed: Checkpoint | None, again: bool) -> int:
    config, spec = run.config, run.placement.spec
    num_workers = len(spec.workers)
    run.vitals.begin()
    if resumed is not None:
        run.say(_resumption(config, resumed))
    if run.placement.kind == "remote":
        remote.wait_until_serving(spec, run.say)
    coordinator = connection.connect(run.placement, again)
    run.own_server.started()
    network = networks.build(config.network, config.value, run.environment, config.run.seed)
    store = ParameterStore(config, len(spec.ps), num_workers, network.initial)
    if resumed is not None:
        _restore(store, resumed)
    run_id = directory.identity(run.folder, is_new=resumed is None)
    closures = Closures(config, run.environment, store, network, run_id)
    most = num_workers * (config.parameter_server.closures_per_worker + 1) + 1
    schedule = Schedule(coordinator, most, in_order=num_workers == 1)
    writers = Writers(run.folder, store.counters())
    screen = display.make(run.console, config.run.log_interval)
    target_return = _target_return(config, run.environment)
    training = Training(
        config,
        target_return,
        store,
        closures,
        schedule,
        _tasks(run, num_workers),
        run.checkpoints,
        writers,
        screen,
        run.vitals,
    )
    run.signals.on_stop(training.ask_to_stop)
    start_seconds = time.perf_counter() - run.started
    try:
        result = training.run()
    finally:
        run.vitals.enter("ended")
        screen.close()
        writers.close()
        schedule.close()
    total_seconds = time.perf_counter() - run.started
    summary = summarize(config, result, start_seconds, total_seconds)
    show(run.console, summary, run.folder)
    save(run.folder, summary, target_return, run.checkpoints, network)
    return run.signals.exit_code(is_over=result.reason != STOPPED)


def _tasks(run: Run, num_workers: int) -> Tasks:
    cluster = run.cluster
    if cluster is None:
        return Tasks(num_workers, check=list, workers_alive=None)
    return Tasks(num_workers, cluster.check, functools.partial(cluster.alive, "worker"))


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
