"""Says what is wrong with a run and what to change: `python -m ps_dqn.doctor RUN`."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.cluster import spec as cluster_spec
from ps_dqn.doctor import diagnosis
from ps_dqn.doctor.patient import Patient, examine
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, run_folder
from ps_dqn.run import directory, finding, libraries, optional_imports, stages, terminal
from ps_dqn.run.signals import WRONG_USAGE
from ps_dqn.telemetry import measured

FORMATS = ("text", "json")


def main(argv: Sequence[str]) -> int:
    """Reads the command line and the run; returns the exit code, 0 whatever is found."""
    values = command_line.new_flags()
    absl_flags.DEFINE_enum(
        "format", "text", list(FORMATS), "For people or for programs.", flag_values=values
    )
    absl_flags.DEFINE_bool(
        "units",
        False,
        "Also play a little with the newest checkpoint, to see which hidden units answer; imports "
        "what the run's flags name.",
        flag_values=values,
    )
    run_folder.define_trust(values)
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.doctor RUN",
            "Says what takes a run's time, whether it learns, and what to change; RUN is its "
            "folder, of a run that goes on or has ended.",
            {"What to look at, and how to say it.": ("format", "units", "trust_run_dir")},
        )
        return 0
    libraries.set_up()
    try:
        words = command_line.parse(values, argv, takes_words=True)
        if values.trust_run_dir and not values.units:
            raise UsageError("--trust_run_dir: has no effect without --units; leave it out")
        found = _patient(finding.one(words), values)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)
    from rich.console import Console

    console = Console()
    if values.units:
        # TensorFlow's own lines are of no use to anybody here.
        console = terminal.redirect_to(pathlib.Path(os.devnull))
        from ps_dqn.environments import overdue

        def say(line: str) -> None:
            if values.format != "json" or line.startswith("error: "):
                terminal.say(console, line)

        overdue.watch(say)
        try:
            with stages.told("playing to look at units", say):
                found = _with_units(found)
        except UsageError as error:
            say(f"error: {error}")
            return WRONG_USAGE
    if values.format == "json":
        terminal.say(console, json.dumps(diagnosis.make(found).as_dict(), indent=2))
    else:
        diagnosis.show(console, diagnosis.make(found))
    return 0


def _patient(folder: pathlib.Path, said: absl_flags.FlagValues) -> Patient:
    """A run as its folder shows it; nothing that its flags name is imported."""
    values = run_folder.new_flags("look at")
    try:
        if said.units:  # which does import it
            words = ["doctor", f"--trust_run_dir={str(said.trust_run_dir).lower()}"]
            command_line.parse(values, words)
            run_folder.parse_over(folder, values, words)
        else:
            command_line.parse_over(folder / directory.FLAGFILE, values, ["doctor"])
        config = experiment.read(values)
    except (absl_flags.Error, UsageError) as error:
        raise UsageError(
            f"{folder / directory.FLAGFILE}: cannot be read by this version ({error})"
        ) from None
    if config.topology.says_workers:
        workers = config.topology.num_workers
    else:
        hosts = cluster_spec.numbered(values.worker_hosts, values.num_workers)
        workers = len(hosts) or values.num_workers
    return examine(measured.read(folder), config, workers)


def _with_units(patient: Patient) -> Patient:
    """The same, with what the network's units do.

    Raises:
        UsageError: there is no checkpoint, or what the run's flags name cannot be used.
    """
    from ps_dqn.run.checkpoints import Checkpoints

    keep = patient.config.run.keep_checkpoints
    checkpoint = Checkpoints(patient.run.path / directory.CHECKPOINTS, keep).newest()
    if checkpoint is None:
        raise UsageError(f"--units: there is no checkpoint in {patient.run.path} yet")
    with optional_imports.hidden():
        from ps_dqn.doctor import units

    share = units.dormant_share(patient.config, checkpoint)
    return dataclasses.replace(patient, dormant_units=share)


if __name__ == "__main__":
    command_line.run_main(main)
