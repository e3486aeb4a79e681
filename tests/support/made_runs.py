"""Folders of runs that no program has made: flags, measures and an end, as a test wants them."""

import csv
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ps_dqn.flags import command_line, experiment, tasks
from ps_dqn.run import directory
from ps_dqn.state import Counters
from ps_dqn.telemetry import metrics
from support.command_lines import parsed

Row = Mapping[str, float]


def make(
    folder: pathlib.Path,
    *flags: str,
    rows: Sequence[Row] = (),
    reason: str = "finished",
    **summary: Any,
) -> pathlib.Path:
    """A run's folder.

    Args:
        folder: where it is to be.
        flags: what its command line said.
        rows: of metrics.csv.
        reason: why it ended; empty where it has not.
        summary: what else its summary says.
    """
    folder.mkdir(parents=True)
    names = [name for topic in experiment.topics().values() for name in topic]
    text = command_line.as_flagfile(parsed(*flags), [*names, *tasks.PLACEMENT])
    directory.write_flags(folder, text)
    with (folder / directory.METRICS).open("w", newline="") as file:
        writer = csv.DictWriter(file, [*Counters._fields, *metrics.columns()], restval="")
        writer.writeheader()
        writer.writerows(rows)
    if reason:
        (folder / directory.SUMMARY).write_text(json.dumps({"reason": reason, **summary}))
    return folder


def evaluations(*returns: float, period: int = 1000, seconds: float = 1.0) -> list[Row]:
    """Rows of evaluations, one after the other."""
    return [
        {
            "env_steps": period * i,
            "updates": period * i // 8,
            "seconds": seconds * i,
            "eval/episode_return": value,
        }
        for i, value in enumerate(returns, 1)
    ]
