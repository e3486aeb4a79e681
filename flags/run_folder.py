"""The command line of what works on a run's folder: its flags over those the run was made with."""

import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from flags import command_line, experiment, tasks
from ps_dqn.errors import UsageError
from ps_dqn.run import directory


def new_flags(purpose: str) -> absl_flags.FlagValues:
    """All flags that a run's flagfile may hold, `--run_dir` and `--checkpoint`.

    Args:
        purpose: what is done with the checkpoint, for the help: "play".
    """
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    absl_flags.DEFINE_string("run_dir", "", "The run's folder.", flag_values=values)
    absl_flags.DEFINE_enum(
        "checkpoint",
        "best",
        ["best", "newest"],
        f"Which checkpoint to {purpose}.",
        flag_values=values,
    )
    return values


def parse(values: absl_flags.FlagValues, argv: Sequence[str]) -> pathlib.Path:
    """Parses a command line over the run's flagfile; the run's folder.

    Raises:
        absl.flags.Error: a flag is unknown or its value cannot be read.
        UsageError: there is no run.
    """
    command_line.parse(values, argv)
    folder = pathlib.Path(values.run_dir).expanduser()
    flagfile = folder / directory.FLAGFILE
    if not values.run_dir or not flagfile.exists():
        raise UsageError(f"--run_dir={values.run_dir}: is not the folder of a run")
    command_line.parse_over(flagfile, values, argv)
    return folder
