"""The coordinator: `python -m ps_dqn.coordinator`, on a local cluster when nothing else is said."""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.cluster import lifeline, proxies
from ps_dqn.cluster.spec import ClusterSpecError
from ps_dqn.config import checks
from ps_dqn.coordinator.checks import atoms
from ps_dqn.errors import FolderError, UsageError
from ps_dqn.flags import command_line, experiment, run_folder, tasks
from ps_dqn.profiling import timeline
from ps_dqn.run import compile_cache, directory, libraries, paths
from ps_dqn.run.signals import INTERRUPTED, START_AGAIN

# With the interpreter's own start, for which people wait too.
_STARTED = timeline.process_began()

FILE_FLAGS = ("run_dir", "resume", "trust_run_dir", "compile_cache")
HEALTH_FLAGS = ("health_port",)
OVER_FLAGS = ("free_stateful_sets",)
PRESET_FLAGS = ("preset", "flagfile")
# Those that people reach for.
FIRST_FLAGS = (
    *("preset", "env_id", "num_workers", "num_ps", "total_env_steps", "target_return"),
    *("learning_rate", "seed", "run_dir", "resume"),
)
# Topics beside the experiment's: the word they are asked for by, their title and their flags.
TOPICS = {
    "presets": ("What it begins with.", PRESET_FLAGS),
    "tasks": ("Where the tasks run.", tasks.PLACEMENT),
    "files": ("Where the files go.", FILE_FLAGS),
    "health": ("How it is watched.", HEALTH_FLAGS),
    "over": ("What is done when it is over.", OVER_FLAGS),
}


def main(argv: Sequence[str]) -> int:
    """Reads the command line and runs it; returns the exit code."""
    timeline.begin("starting Python")
    is_checked = timeline.until("checking flags")
    lifeline.stop_without_caller()
    values = _define()
    libraries.set_up()
    try:
        if command_line.asks_for_help(argv):
            _print_help(values, argv)
            return 0
        folder = _parse(values, argv)
        config, told = experiment.read(values), list[str]()
        if atoms.open_ends(values):
            config, told = atoms.derived(config)
            experiment.assign(values, config)
        placement = tasks.read_placement(values, config.parameter_server.has_servers)
        num_workers, is_remote = len(placement.spec.workers), placement.kind == "remote"
        checks.check_workers(config, num_workers, is_remote)
        compile_cache.use(values.compile_cache)
        proxies.go_around(placement.spec)
        is_checked()
        timeline.settle(config.profiling.timeline)
        with timeline.span("importing all but TensorFlow"):
            from ps_dqn.coordinator.process import Command
            from ps_dqn.coordinator.start import start

        names = _presets(values, folder)
        flagfile = directory.BEGAN_WITH + names + "\n" if names else ""
        flagfile += run_folder.as_flagfile(values)
        if folder is not None and directory.has_checkpoint(folder):
            run_folder.check_goes_on(folder, flagfile)
        return start(
            Command(
                config,
                placement,
                folder or directory.new_path(config.environment.env_id),
                flagfile,
                _STARTED,
                tuple(told),
                is_named=folder is not None,
            )
        )
    except (absl_flags.Error, ClusterSpecError, UsageError) as error:
        from ps_dqn.cluster import stateful_sets
        from ps_dqn.coordinator import transient

        if isinstance(error, FolderError) and values.is_parsed():
            folder, kind = pathlib.Path(values.run_dir), tasks.kind_of(values)
            if transient.is_transient(error, folder, kind == "remote"):
                print(f"error: {error}", file=sys.stderr)
                return START_AGAIN
        sets = values["free_stateful_sets"].value
        if stateful_sets.is_pod() and sets:  # nobody starts it again: see its Job
            stateful_sets.scale_to_zero(sets, print)
        command_line.refuse(error)
    except KeyboardInterrupt:
        print("Ctrl-C came before the run had begun: no file was changed", file=sys.stderr)
        return INTERRUPTED


def _define() -> absl_flags.FlagValues:
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    absl_flags.DEFINE_string(
        "run_dir",
        "",
        "Folder for everything the run leaves; a run that is there already is resumed. Default: "
        "a new one under runs/.",
        flag_values=values,
    )
    absl_flags.DEFINE_bool(
        "resume",
        False,
        "Go on with the run in --run_dir, or with the newest under runs/, with its flags where "
        "none are given here.",
        flag_values=values,
    )
    run_folder.define_trust(values)
    return values


def _parse(values: absl_flags.FlagValues, argv: Sequence[str]) -> pathlib.Path | None:
    """Parses the flags, over those of the run that is resumed; returns the run directory."""
    command_line.parse(values, argv)
    folder = paths.named("--run_dir", values.run_dir) if values.run_dir else None
    if values.resume and folder is None:
        folder = directory.newest()
        if folder is None:
            raise UsageError(
                f"--resume: no run with a checkpoint under {directory.RUNS}/: say --run_dir"
            )
    if folder is None:
        return None
    if directory.has_checkpoint(folder):
        run_folder.parse_over(folder, values, argv)
    elif values.resume:
        raise UsageError(f"--resume: no checkpoint in --run_dir={folder}")
    return folder


def _presets(values: absl_flags.FlagValues, folder: pathlib.Path | None) -> str:
    """The presets of the run, comma separated.

    Raises:
        UsageError: a run that is resumed was begun with others.
    """
    names = ",".join(command_line.presets(values))
    if folder is None or not directory.has_checkpoint(folder):
        return names
    before = directory.read_presets(folder)
    if names and names != before:
        raise UsageError(
            f"--preset={names}: the run in {folder} was begun with {before or 'none'}, and goes on "
            f"with the flags it has: leave it out, or say another --run_dir"
        )
    return before


def _print_help(values: absl_flags.FlagValues, argv: Sequence[str]) -> None:
    command_line.print_help(
        values,
        "python -m ps_dqn.coordinator",
        "Trains a deep Q-network on a parameter-server cluster; on this machine by default.",
        {**experiment.topics(), **dict(TOPICS.values())},
        argv,
        FIRST_FLAGS,
        {**experiment.topic_words(), **{word: title for word, (title, _) in TOPICS.items()}},
    )


if __name__ == "__main__":
    command_line.run_main(main)
