"""What comes before a run: checks, the run directory, the log and the tasks.

The order matters: TensorFlow is imported once its output goes to a log file, and local tasks are
forked after that import but before TensorFlow makes anything.
"""

import contextlib
import dataclasses
import functools
import pathlib
import sys
import time
import traceback
import warnings

from cluster import health, local, server
from cluster.spec import Placement
from ps_dqn import environments, user_code
from ps_dqn.config import Config
from ps_dqn.coordinator import footprint, tasks
from ps_dqn.coordinator.history import History
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import ClusterLostError, UsageError, WorkerError
from ps_dqn.replay import budget
from ps_dqn.replay import plan as planning
from ps_dqn.run import directory, terminal
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.signals import FAILED, WRONG_USAGE, Signals
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.vitals import Vitals

# A step of one environment that takes as long as this is worth being made while learning (seconds).
SLOW_STEP = 0.001


# Flags of the run that are divided by its workers.
SHARED = ("--replay_capacity=", "--min_replay_size=")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line, read and checked."""

    config: Config
    placement: Placement
    folder: pathlib.Path
    flagfile: str  # its text
    started: float  # time.perf_counter() when the command began


def start(command: Command) -> int:
    """Runs the command to its end; returns the exit code.

    Raises:
        UsageError: the environment or the run directory cannot be used; no task was started.
    """
    if command.placement.kind == "remote":
        _check_own_port(command.placement.spec.chief)
    share = command.config.shared_by(len(command.placement.spec.workers))
    with warnings.catch_warnings(record=True) as heard:
        share, environment = look_at_environment(share)
    command = dataclasses.replace(command, config=share)
    num_workers, is_remote = len(command.placement.spec.workers), command.placement.kind == "remote"
    footprint.check(share, environment, num_workers, is_remote)
    module, colon, _ = share.network.network.partition(":")
    if colon:
        user_code.find_module(f"--network={share.network.network}", module)
    config, lines = plan_replay(command, environment)
    command = dataclasses.replace(command, config=config)
    directory.create(command.folder)
    checkpoints = Checkpoints(
        command.folder / directory.CHECKPOINTS, command.config.run.keep_checkpoints
    )
    resumed = checkpoints.newest()
    directory.write_flags(command.folder, command.flagfile)
    log = command.folder / directory.LOGS / "coordinator.log"
    console = terminal.redirect_to(log)
    for warning in heard:
        print(warning.message, file=sys.stderr)  # the log by now
    say = functools.partial(terminal.say, console)
    say(_announcement(command, environment))
    if config.parameter_server.overlap == "on":
        lines.append("environments are stepped while workers learn (--overlap=on)")
    if config.parameter_server.is_synchronous:
        lines.append(
            f"workers push in rounds (--aggregation={config.parameter_server.aggregation})"
        )
    skipped = [f"{each}: skipped" for each in checkpoints.skipped]
    for line in [*lines, *skipped, f"run directory {command.folder}"]:
        say(line)
    past = History()
    vitals = Vitals(
        RunFigures.planned(config, num_workers),
        lambda: past.figures(time.perf_counter() - command.started),
    )
    signals = Signals(say, lambda: vitals.last_sign)
    try:
        # TensorFlow, once for every fork.
        from ps_dqn.coordinator import reconnect, run, snapshots
        from ps_dqn.coordinator.watchdog import Watchdog

        with tasks.running(command.placement, command.folder) as cluster:
            signals.watch()
            watchdog = Watchdog(config.faults, command.placement, cluster, say, past.failures)
            context = run.RunContext(
                config,
                environment,
                command.placement,
                command.folder,
                checkpoints,
                cluster,
                console,
                signals,
                vitals,
                tasks.serve_health(command.placement, vitals),
                watchdog,
                snapshots.Snapshots(config.faults.snapshot_period),
                past,
                command.started,
            )
            # Tasks in this process can only stand still with all of it.
            is_alone = command.placement.kind == "in_process"
            with contextlib.nullcontext() if is_alone else watchdog.looking():
                return reconnect.train(context, resumed)
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


def _check_own_port(address: str) -> None:
    try:
        server.check_port(address)
    except server.PortError as error:
        raise UsageError(str(error)) from None


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
    try:
        plan = planning.plan_replay(config, environment)
        if not is_remote and not config.replay.replay_files:
            plan.check_memory(num_workers)
    except UsageError as error:
        if num_workers > 1 and any(flag in str(error) for flag in SHARED):
            raise UsageError(f"each of {num_workers} workers has its share: {error}") from None
        raise
    return config, [plan.describe()]


def look_at_environment(config: Config) -> tuple[Config, EnvironmentSpec]:
    """Refuses what cannot be acted or evaluated in, and settles `--overlap=auto`.

    Raises:
        UsageError: with the flag, its value and what to do.
    """
    options = config.parameter_server
    if options.overlap == "auto":
        spec, seconds = environments.describe_and_time(config.environment)
        is_worth_it = seconds >= SLOW_STEP and config.replay.replay != "rollout"
        options = dataclasses.replace(options, overlap="on" if is_worth_it else "off")
        config = dataclasses.replace(config, parameter_server=options)
    else:
        spec = environments.describe(config.environment)
    if config.environment.eval_env_kwargs:
        other = environments.describe(config.environment.in_evaluations)
        shown = (spec.observation_shape, spec.num_actions)
        if (other.observation_shape, other.num_actions) != shown:
            raise UsageError(
                f"--eval_env_kwargs={config.environment.eval_env_kwargs}: observations are "
                f"{other.observation_shape}, actions {other.num_actions}, and {shown[0]} and "
                f"{shown[1]} in training: they must be alike"
            )
    return config, spec


def _announcement(command: Command, environment: EnvironmentSpec) -> str:
    config, spec, placement = command.config, command.placement.spec, command.placement
    where = {
        "local": "processes of this machine",
        "in_process": "this process",
        "remote": "remote tasks",
    }
    shape = "×".join(str(size) for size in environment.observation_shape) or "1"
    num_environments = config.environment.envs_per_worker
    return (
        f"{config.environment.env_id}: observations {shape}, {environment.num_actions} actions; "
        f"{_count(len(spec.workers), 'worker')} × {_count(num_environments, 'environment')}, "
        f"{_count(len(spec.ps), 'parameter server')}, {where[placement.kind]}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
