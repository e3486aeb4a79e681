"""One run on its cluster, put together: from connecting to the table at its end."""

import math
import time

from ps_dqn import networks
from ps_dqn.cluster import remote
from ps_dqn.cluster.spec import SERVERS, Task, of_servers
from ps_dqn.config import Config
from ps_dqn.coordinator import stores
from ps_dqn.coordinator.connecting import connection, gpus, runtime
from ps_dqn.coordinator.connecting.connection import Connection
from ps_dqn.coordinator.context import RunContext
from ps_dqn.coordinator.evaluating.films import Films
from ps_dqn.coordinator.keeping import recovery
from ps_dqn.coordinator.keeping.recovery import Recovered
from ps_dqn.coordinator.keeping.saving import Saving
from ps_dqn.coordinator.loop import Training
from ps_dqn.coordinator.reporting import sparsity, summary
from ps_dqn.coordinator.reporting.result import Result
from ps_dqn.coordinator.scheduling.dispatch import Schedule
from ps_dqn.coordinator.supervision.tasks import Tasks
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import ClusterLostError, UsageError
from ps_dqn.networks.network import QNetwork
from ps_dqn.profiling import timeline
from ps_dqn.replay_server.store import ReplayStore
from ps_dqn.run import directory, stages
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.run.disk import Disk
from ps_dqn.run.signals import FAILED, STOPPED
from ps_dqn.state import State
from ps_dqn.store import Store
from ps_dqn.telemetry import display, learning_curve
from ps_dqn.telemetry.observer import Observer
from ps_dqn.worker.graph import behaviour
from ps_dqn.worker.graph.closures import Closures

# After a task was lost, workers may take so long to come to the end of what they have begun
# (seconds).
SETTLE_SECONDS = 10.0


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
    connected = _connect(context, reconnecting)
    present = connected.members.present
    on_gpus = gpus.learns_on_them(config, num_workers, present, context.say)

    building = stages.stage("building the network", context.say)
    with building, runtime.without_functions_of_operations():
        whose = config.network, config.value, environment, config.run.seed
        network = networks.build(*whose, config.precision.precision)
        written = network if config.precision.is_full else networks.build(*whose)
        acts = behaviour.make(config, environment, network)
    store = stores.make(config, spec, present)
    with stages.stage("creating the parameters", context.say):
        state, run_id = _begin(context, store, network, resumed, reconnecting)
    replay = ReplayStore(config, environment, len(spec.ps), len(spec.replay))
    with stages.stage("creating the replay", context.say):
        made = state.counters.updates if state is not None else 0
        held = replay.create(run_id, store.session, made)
    with stages.stage("tracing what workers will run", context.say):
        saved = resumed.state if resumed is not None else None
        loss_scale = context.snapshots.first_loss_scale(config.precision, state, saved)
        known = config, environment, store, replay, network, acts, run_id, loss_scale
        closures = Closures(*known, on_gpus)
    is_synchronous = config.parameter_server.is_synchronous
    absent = sorted(set(range(num_workers)) - present)
    workers = recovery.Workers(present, store.num_ps)
    heard = context.history.heard.version if context.history.heard else 0
    with stages.stage("registering the run with workers", context.say):
        again = store, workers, state, closures.rejoin, is_synchronous, heard
        recovered = recovery.push_again(*again)
    counters = store.counters()
    if context.cluster is not None and counters.env_steps > context.history.began_at:
        # Though no closure may have ended since.
        context.cluster.are_well(*of_servers(context.cluster.tasks))
    lost = context.history.recovered(recovered, counters)
    if state is not None:
        context.say(_resumption(config, state, resumed, recovered, lost))
        for line in replay.describe(held):
            context.say(line)
    elif context.history.was_lost:
        context.say(f"no checkpoint was saved yet: training begins anew, {lost:,} updates are lost")
    if recovered.again:
        context.snapshots.take(store, context.snapshots.seconds)
    most = num_workers * (config.parameter_server.closures_per_worker + 1) + 1
    schedule = Schedule(connected.coordinator, most, in_order=num_workers == 1)
    context.tracking.begin(run_id)
    with stages.stage("opening the run's files", context.say):
        writers = context.writers()
        writers.resume(counters)
        context.disk.write("metrics", writers.flush)
    screen = display.make(context.console, config.run.log_interval)
    observer = Observer(context.vitals, screen, writers, context.disk)
    films = Films(context.folder, config.run.video_period, context.say, writers.add_film)
    training = Training(
        config,
        _target_return(config, environment),
        store,
        replay,
        closures,
        schedule,
        Tasks(
            num_workers,
            context.cluster,
            context.history.failures,
            absent,
            context.pulses,
            spec.actors,
        ),
        Saving(
            store,
            context.checkpoints,
            context.snapshots,
            observer.disk,
            config.run.checkpoint_period,
        ),
        observer,
        recovered.first_ticket,
        films,
        context.profiles.hear,
        context.course,
    )
    if absent:
        context.say(f"training begins without {_listed(absent)}")
    context.watchdog.follow(schedule.in_flight)
    context.signals.on_stop(training.request_stop)
    context.history.begins(time.perf_counter() - context.started)
    back = [Task("chief", 0), *(task for task in spec.tasks() if task.job in SERVERS)]
    context.history.failures.work(back)
    learning_curve.prepare()

    def has_time() -> bool:
        """Whether the run may wait for what is beside its training: a signal ends that."""
        return training.is_over and not context.signals.received

    try:
        result = training.run()
        context.signals.left_tasks()
        context.profiles.finish(has_time)
        context.timelines.fetch(is_over=training.is_over)
    except ClusterLostError:
        context.snapshots.seconds = training.seconds
        training.lose()
        context.history.lost(context.vitals.read().counters, time.perf_counter() - context.started)
        connected.members.let_nobody_in()
        with stages.stage("waiting for closures to end, as a task is lost", context.say):
            schedule.settle(SETTLE_SECONDS)
        # A worker may have been coming in as a server was lost: TensorFlow waits for the server.
        with stages.stage("leaving the lost connection", context.say), context.watchdog.replacing():
            connected.members.close()
        raise
    finally:
        with stages.stage("closing the connection", context.say):
            connected.members.close()
            context.watchdog.follow(None)
            films.close(has_time)
            context.profiles.disconnect()
            observer.close()
            schedule.close()
    errors = [*result.errors, *_conclude(context, result, written, observer.disk)]
    for error in errors:
        context.say(f"error: {error}")
    if errors:
        return FAILED
    return context.signals.exit_code(is_over=result.reason != STOPPED)


def _connect(context: RunContext, reconnecting: bool) -> Connection:
    """To the tasks, once enough of them answer."""
    context.vitals.begin()
    is_remote = context.is_remote
    with timeline.span("waiting for the tasks of others" if is_remote else "looking for tasks"):
        present = _wait_for_tasks(context, reconnecting) if is_remote else _tasks_here(context)
    connecting = stages.stage("connecting to the tasks", context.say)
    with connecting, context.watchdog.replacing():
        connected = connection.connect(context.placement, present, reconnecting)
    context.own_server.started()
    return connected


def _tasks_here(context: RunContext) -> tuple[int, ...] | None:
    """The workers of this machine, but for those that keep ending; None: all."""
    away = context.cluster.waiting("worker") if context.cluster is not None else []
    workers = range(len(context.placement.spec.workers))
    present = tuple(set(workers) - {task.index for task in away})
    return present if away and present else None


def _wait_for_tasks(context: RunContext, reconnecting: bool) -> tuple[int, ...]:
    """The workers that are there, once enough are, and the parameter servers."""
    options, spec = context.config.faults, context.placement.spec
    at_start = options.min_workers or len(spec.workers)
    least = max(options.min_workers, 1) if reconnecting else at_start
    limit = options.ps_recovery_timeout if reconnecting else math.inf
    advice = "" if options.min_workers else " (--min_workers=1 would begin without)"
    try:
        present = remote.wait_until_serving(spec, context.say, least, limit, advice)
    except TimeoutError as error:
        raise ClusterLostError(f"{error} (--ps_recovery_timeout)") from None
    context.watchdog.heard(
        task for task in spec.tasks() if task.job != "worker" or task.index in present
    )
    return present


def _begin(
    context: RunContext,
    store: Store,
    network: QNetwork,
    resumed: Checkpoint | None,
    reconnecting: bool,
) -> tuple[State | None, str]:
    """Gives the parameter servers what the run begins with.

    Returns:
        The state that it goes on from, None where it begins; and the run's name.

    Raises:
        UsageError: the checkpoint does not fit the flags.
    """
    run_id = directory.identity(context.folder)
    held = store.held(run_id, network.num_parameters) if run_id else None
    saved = resumed.state if resumed is not None else None
    state = recovery.furthest(held, context.snapshots.newest, saved)
    if state is not None and state is held and not reconnecting:
        context.snapshots.seconds = directory.trained_seconds(context.folder)
    begins_anew = state is None and not context.history.has_begun
    if begins_anew and (aside := directory.set_aside(context.folder)):
        context.say(f"training begins anew: what an earlier run has left is in {aside} now")
    if state is None or not run_id:
        run_id = directory.new_identity(context.folder)
    if state is not None and state.log:
        context.snapshots.newest = state  # the servers forget it now
    try:
        store.create(run_id, network.initial, state, network.num_moments, network.segments)
    except ValueError as error:
        raise UsageError(
            f"checkpoint {resumed and resumed.path} does not fit these flags: {error}. Use the "
            f"flags it was made with, or another --run_dir"
        ) from None
    return state, run_id


def _resumption(
    config: Config, state: State, resumed: Checkpoint | None, recovered: Recovered, lost: int
) -> str:
    counters = state.counters
    where = f"{counters.env_steps:,} env steps, {counters.updates:,} updates"
    if resumed is not None and state is resumed.state:
        forgets, loses = config.forgets_experience, bool(lost)
        notes = ["replay starts empty"] * forgets + [f"{lost:,} updates are lost"] * loses
        return "; ".join([f"resumed at {where} from {resumed.path.name}", *notes])
    missing = f"{lost:,} updates are lost" if lost else "none is missing"
    return f"goes on at {where}: {recovered.again} pushes after that are pushed again, {missing}"


def _listed(workers: list[int]) -> str:
    """For people: worker 2, or workers 0, 2 and 5."""
    *others, last = map(str, workers)
    return f"workers {', '.join(others)} and {last}" if others else f"worker {last}"


def _target_return(config: Config, environment: EnvironmentSpec) -> float:
    if config.run.target_return is not None:
        return config.run.target_return
    threshold = environment.reward_threshold
    return math.inf if threshold is None else threshold


def _conclude(context: RunContext, result: Result, network: QNetwork, disk: Disk) -> list[str]:
    """Shows and saves what came of the run; what could not be saved, for people."""
    total_seconds = time.perf_counter() - context.started
    with timeline.span("showing the tables"):
        actors = context.pulses.memory("actor")
        known = context.config, result, context.history, total_seconds, actors
        content = summary.summarize(*known)
        content |= sparsity.summary(context.config, network, context.checkpoints)
        summary.show(context.console, content, context.folder)
    target_return = _target_return(context.config, context.environment)
    runtime.wait_for_nobody()  # operations write the model
    written = context.folder, content, target_return, context.checkpoints, network, disk
    return summary.save(*written, context.say)
