"""Draws and tabulates runs side by side: `python -m ps_dqn.plot RUN…`.

Runs with the same settings are one group, whose seeds are averaged.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line
from ps_dqn.run import finding, libraries, outputs, paths

FLAGS = ("output", "x", "metric", "table")
TABLES = ("text", "csv", "none")


def main(argv: Sequence[str]) -> int:
    """Reads the command line, draws and prints; returns the exit code."""
    values = _define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.plot RUN…",
            "Draws and tabulates runs side by side; RUN is a run's folder, or one with runs below.",
            {"What to show.": FLAGS},
        )
        return 0
    libraries.set_up()
    try:
        words = command_line.parse(values, argv, takes_words=True)
        return _show(finding.runs(words), values)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)


def _define() -> absl_flags.FlagValues:
    values = command_line.new_flags()
    absl_flags.DEFINE_string(
        "output",
        "scores.png",
        "The picture, .png, .svg or .pdf; empty: none is drawn.",
        flag_values=values,
    )
    absl_flags.DEFINE_list(
        "x",
        ["env_steps", "seconds"],
        "What curves are drawn over, a panel each: env_steps, seconds, updates.",
        flag_values=values,
    )
    absl_flags.DEFINE_string(
        "metric", "eval/episode_return", "Which column of metrics.csv.", flag_values=values
    )
    absl_flags.DEFINE_enum(
        "table", "text", list(TABLES), "How scores are printed.", flag_values=values
    )
    return values


def _show(folders: Sequence[pathlib.Path], values: absl_flags.FlagValues) -> int:
    from rich.console import Console

    from ps_dqn.plot import comparing, picture, scores

    path = paths.named("--output", values.output)
    if values.output and path.suffix not in picture.FORMATS:
        raise UsageError(f"--output={values.output}: must end in {', '.join(picture.FORMATS)}")
    for x in values.x:
        if x not in picture.AXES:
            raise UsageError(f"--x={x}: must be of {', '.join(picture.AXES)}")
    if not (values.output and values.x) and values.table == "none":
        raise UsageError("--table=none: leaves nothing to show without --output and --x")
    groups = comparing.groups(folders, values.metric)
    if values.output and values.x:
        outputs.check_file(path, f"--output={path}")
    if values.table == "text":
        scores.show(Console(), comparing.table(groups, values.metric), values.metric)
    elif values.table == "csv":
        scores.write(comparing.table(groups, values.metric), sys.stdout)
    if values.output and values.x:
        comparing.draw(groups, values.x, values.metric, path)
        if values.table != "csv":  # which is for programs
            print(f"drawn into {path}")
    return 0


if __name__ == "__main__":
    command_line.run_main(main)
