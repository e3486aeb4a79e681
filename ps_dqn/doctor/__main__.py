"""Says what is wrong with a run and what to change: `python -m ps_dqn.doctor RUN`."""

import json
import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.doctor import diagnosis
from ps_dqn.doctor.patient import Patient, examine
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, run_folder
from ps_dqn.run import directory, finding
from ps_dqn.telemetry import measured

FORMATS = ("text", "json")


def main(argv: Sequence[str]) -> int:
    """Reads the command line and the run; returns the exit code, 0 whatever is found."""
    values = command_line.new_flags()
    absl_flags.DEFINE_enum(
        "format", "text", list(FORMATS), "For people or for programs.", flag_values=values
    )
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.doctor RUN",
            "Says what takes a run's time, whether it learns, and what to change; RUN is its "
            "folder, of a run that goes on or has ended.",
            {"How to say it.": ("format",)},
        )
        return 0
    try:
        words = command_line.parse(values, argv, takes_words=True)
        found = diagnosis.make(_patient(finding.one(words)))
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)
    if values.format == "json":
        print(json.dumps(found.as_dict(), indent=2))
    else:
        from rich.console import Console

        diagnosis.show(Console(), found)
    return 0


def _patient(folder: pathlib.Path) -> Patient:
    """A run as its folder shows it; nothing that its flags name is imported."""
    values = run_folder.new_flags("look at")
    try:
        command_line.parse_over(folder / directory.FLAGFILE, values, ["doctor"])
        config = experiment.read(values)
    except (absl_flags.Error, UsageError) as error:
        raise UsageError(
            f"{folder / directory.FLAGFILE}: cannot be read by this version ({error})"
        ) from None
    hosts = values.worker_hosts
    workers = len(hosts) if len(hosts) > 1 else values.num_workers
    return examine(measured.read(folder), config, workers)


if __name__ == "__main__":
    command_line.run_main(main)
