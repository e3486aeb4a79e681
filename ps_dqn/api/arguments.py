"""Options as Python has them, as words of the coordinator's command line."""

import json
import os
import pathlib
from collections.abc import Mapping, Sequence

from absl import flags as absl_flags

from ps_dqn.cluster.spec import ClusterSpecError
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, naming, run_folder, tasks
from ps_dqn.run import paths

# What an option may be given as; None leaves it out.
Option = str | int | float | bool | Sequence[int | str] | Mapping[str, object] | None
# Flags of the command line that are no options here.
_NOT_HERE = {"undefok"}
_PARAMETERS = ("environment", "preset", "callback", "run_dir", "resume", "verbose")


def words(preset: str | Sequence[str] | None, options: Mapping[str, Option]) -> list[str]:
    """The flags of a command line; what options say wins over the preset.

    Raises:
        UsageError: there is no such preset or option, or its value cannot be written down.
    """
    known = [name for name in _flags() if name not in _NOT_HERE]
    for name in options.keys() - set(known):
        near = naming.nearest(name, [*known, *_PARAMETERS])
        raise UsageError(f"train() has no option {name!r}{near} they are the flags of ps-dqn train")
    found = [] if preset is None else [f"--preset={_text('preset', preset)}"]
    found += [f"--{name}={_text(name, each)}" for name, each in options.items() if each is not None]
    return found


def path(run_dir: str | os.PathLike[str]) -> pathlib.Path:
    """The path of a run's folder.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(run_dir, str | os.PathLike):
        raise UsageError(f"run_dir={run_dir!r}: is no path: give a text or a pathlib.Path")
    return paths.named("run_dir", run_dir)


def env_id(flags: Sequence[str]) -> str:
    """The environment that a command line names.

    Raises:
        UsageError: a value cannot be read.
    """
    return str(_parsed(flags).env_id)


def is_remote(flags: Sequence[str]) -> bool:
    """Whether a command line's tasks are started elsewhere.

    Raises:
        UsageError: a value cannot be read, or the cluster cannot be used.
    """
    try:
        values = _parsed(flags)
        has_servers = experiment.read(values).parameter_server.has_servers
        return tasks.read_placement(values, has_servers).kind == "remote"
    except ClusterSpecError as error:
        raise UsageError(str(error)) from None


def _parsed(flags: Sequence[str]) -> absl_flags.FlagValues:
    values = _flags()
    try:
        command_line.parse(values, ["train", *flags])
    except absl_flags.Error as error:
        raise UsageError(" ".join(str(error).split())) from None
    return values


def _flags() -> absl_flags.FlagValues:
    """The flags of an experiment, and those that say where its tasks run."""
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    run_folder.define_trust(values)
    return values


def _text(name: str, value: Option) -> str:
    if isinstance(value, Mapping):
        try:
            return json.dumps(value)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{name}={value!r}: cannot be taken to other processes ({error}): give what JSON "
                f"can hold, or a function that makes the environment"
            ) from None
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)
