"""What comes before a run: checks, the run directory and the log."""

import dataclasses
import functools
import pathlib
import sys
import warnings

from ps_dqn.cluster import server
from ps_dqn.config import Config, strategy
from ps_dqn.coordinator import process
from ps_dqn.coordinator.checks import (
    action_grid,
    atoms,
    demonstrated,
    first_look,
    footprint,
    named,
    observations,
    resumed,
    settled,
)
from ps_dqn.coordinator.process import Command
from ps_dqn.environments import EnvironmentSpec, interface, rendering
from ps_dqn.errors import UsageError
from ps_dqn.profiling import timeline
from ps_dqn.replay import budget
from ps_dqn.replay import plan as planning
from ps_dqn.replay.plan import Plan
from ps_dqn.replay_server import shares
from ps_dqn.run import directory, provenance, signals, terminal
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.overwritten import Overwritten

# Flags of the run that are divided by its workers.
SHARED = ("--replay_capacity=", "--min_replay_size=")


def start(command: Command) -> int:
    """Runs the command to its end; returns the exit code.

    Raises:
        UsageError: the environment or the run directory cannot be used; no task was started.
    """
    if command.is_named:
        directory.check_free(command.folder)
    if command.placement.kind == "remote":
        _check_own_port(command.placement.spec.chief)
    checking = timeline.span("checking what the run needs")
    with checking, warnings.catch_warnings(record=True) as heard:
        command, environment, lines = _planned(command)
    is_made = timeline.until("preparing the run directory")
    if not command.is_named:
        command = dataclasses.replace(command, folder=directory.make_new(command.folder))
    is_new = directory.is_new(command.folder)
    directory.create(command.folder)
    checkpoints = Checkpoints(
        command.folder / directory.CHECKPOINTS, command.config.run.keep_checkpoints
    )
    newest = checkpoints.newest()
    written = directory.FLAGFILE, directory.ENVIRONMENT, directory.SUMMARY, interface.FILE
    before = Overwritten(command.folder / name for name in written)
    try:
        directory.write_flags(command.folder, command.flagfile)
        provenance.write(command.folder)
        interface.write(command.folder, interface.of(command.config, environment))
        directory.forget_end(command.folder)
    except BaseException:
        before.put_back()
        if is_new:
            directory.remove(command.folder)
        raise
    log = command.folder / directory.LOGS / "coordinator.log"
    console = terminal.redirect_to(log)
    for warning in heard:
        print(warning.message, file=sys.stderr)  # the log by now
    say = functools.partial(terminal.say, console)
    skipped = [f"{each}: skipped" for each in checkpoints.skipped]
    for line in [_announcement(command, environment), *lines, *skipped]:
        say(line)
    say(f"run directory {command.folder}")
    is_made()
    prepared = process.Prepared(command, environment, checkpoints, newest, console, log)
    results = _results(command.folder)
    try:
        code = process.run(prepared)
    except KeyboardInterrupt:
        code = signals.INTERRUPTED
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else signals.FAILED
    came_to_nothing = code != 0 and not is_new and results == _results(command.folder)
    if code == signals.WRONG_USAGE or came_to_nothing:
        before.put_back()  # what is there was not made with the flags of now
    is_in_vain = code in (signals.INTERRUPTED, signals.WRONG_USAGE)
    if is_in_vain and is_new and not directory.has_begun(command.folder):
        directory.remove(command.folder)
        say(f"nothing was learned yet: {command.folder} is removed")
    return code


def _results(folder: pathlib.Path) -> tuple[object, ...]:
    """What tells whether training has left anything in a folder since it was looked at last."""
    checkpoints = {path.name for path in (folder / directory.CHECKPOINTS).glob("*.npz")}
    metrics, summary = folder / directory.METRICS, folder / directory.SUMMARY
    size = metrics.stat().st_size if metrics.exists() else 0
    return checkpoints, size, summary.exists()


def _planned(command: Command) -> tuple[Command, EnvironmentSpec, list[str]]:
    """Refuses what cannot be run here, and settles what was left to the program.

    Returns:
        The command, for each worker its share; what it acts in; what people should know.
    """
    num_workers, is_remote = len(command.placement.spec.workers), command.placement.kind == "remote"
    named.check(command.config)
    with timeline.span("looking at the environment"):
        config, environment = first_look.at_environment(command.config.shared_by(num_workers))
    config = settled.as_before(config, command.flagfile, command.folder)
    resumed.check(command.folder, config, environment)
    observations.check(config, environment)
    if config.run.video_period:
        rendering.looks(config.environment.in_evaluations, rendering.ARRAY)
    footprint.check(config, environment, num_workers, is_remote)
    shown = demonstrated.read(config, environment, 1 if is_remote else num_workers)
    config, lines = plan_replay(dataclasses.replace(command, config=config), environment)
    flagfile, told = settled.flagfile(config, command.flagfile)
    lines += [*shown, *action_grid.notes(config, environment), *atoms.notes(config)]
    lines += [*command.told, *told]
    if not config.precision.is_full:
        numbers = config.precision.precision
        lines.append(f"workers compute in {numbers}, parameters are float32 (--precision)")
    if config.precision.acting_precision == "int8":
        lines.append("workers act in int8 while they learn; evaluations are played in float32")
    if config.parameter_server.overlap == "on":
        lines.append("environments are stepped while workers learn (--overlap=on)")
    lines += strategy.describe(config.parameter_server)
    command = dataclasses.replace(command, config=config, flagfile=flagfile)
    return command, environment, lines


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
    config, spec = command.config, command.placement.spec
    if config.replay.replay == "rollout" or config.demonstrations.offline:
        return config, []
    if config.topology.is_shared:
        shares.check(config, len(spec.replay))
    num_keepers = len(spec.replay) or len(spec.workers)
    memory = config.replay.replay_memory
    is_remote = command.placement.kind == "remote"
    whose = "replay server" if spec.replay else "worker"
    if budget.is_share(memory):
        nbytes = budget.parse(memory) // num_keepers
        if is_remote:  # each of them knows what it has
            return config, [f"each {whose}'s replay: {memory} of its memory"]
        replay = dataclasses.replace(config.replay, replay_memory=str(nbytes))
        config = dataclasses.replace(config, replay=replay)
    if spec.replay:
        plan = shares.planned(config, environment, 0, num_keepers)
    else:
        plan = _planned_of_workers(config, environment, num_keepers)
    if not is_remote and not config.replay.replay_files:
        plan.check_memory(num_keepers, whose)
    return config, [plan.describe(whose)]


def _planned_of_workers(config: Config, environment: EnvironmentSpec, num_workers: int) -> Plan:
    """The replay of each of so many workers.

    Raises:
        UsageError: it cannot be as wanted.
    """
    try:
        return planning.plan_replay(config, environment)
    except UsageError as error:
        if num_workers > 1 and any(flag in str(error) for flag in SHARED):
            raise UsageError(f"each of {num_workers} workers has its share: {error}") from None
        raise


def _announcement(command: Command, environment: EnvironmentSpec) -> str:
    config, spec, placement = command.config, command.placement.spec, command.placement
    where = {
        "local": "processes of this machine",
        "in_process": "this process",
        "remote": "remote tasks",
    }
    num_environments = config.environment.envs_per_worker
    workers = f"{_count(len(spec.workers), 'worker')} × {_count(num_environments, 'environment')}"
    if spec.replay:
        topology = config.topology
        workers = (
            f"{_count(topology.num_actors, 'actor')} × {_count(num_environments, 'environment')}, "
            f"{_count(topology.num_learners, 'learner')}, "
            f"{_count(len(spec.replay), 'replay server')}"
        )
    if config.topology.has_remote_environments:
        learners = _count(config.topology.num_learners, "learner")
        workers = (
            f"{_count(config.topology.num_actors, 'actor')}, {learners} × "
            f"{_count(num_environments, 'environment')}"
        )
    servers = f"{_count(len(spec.ps), 'parameter server')}, " if spec.ps else ""
    return (
        f"{config.environment.env_id}: observations {environment.describe_observation()}, "
        f"{environment.describe_actions()}; "
        f"{workers}, {servers}{where[placement.kind]}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
