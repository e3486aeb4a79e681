"""The end of a sweep: what its runs have come to, as a table and as a picture."""

import pathlib

from rich.console import Console

from ps_dqn.errors import UsageError
from ps_dqn.plot import comparing, scores
from ps_dqn.run import disk, terminal
from ps_dqn.sweep.running import Sweep

PICTURE, TABLE = "scores.png", "scores.csv"
_AXES = ("env_steps", "seconds")


def show(console: Console, sweep: Sweep, folder: pathlib.Path, metric: str) -> None:
    """Compares the runs that have ended; one that was interrupted is no result.

    Raises:
        UsageError: none of them has measured the metric, or a file cannot be written.
    """
    counts = {
        "ended": sweep.ended,
        "failed": sweep.failed,
        "interrupted (the same command goes on with them)": sweep.interrupted,
    }
    said = ", ".join(f"{len(found)} {what}" for what, found in counts.items() if found)
    terminal.say(console, f"runs: {said or 'none'}")
    if not sweep.ended:
        return
    groups = comparing.groups([trial.folder for trial in sweep.ended], metric)
    table = comparing.table(groups, metric)
    scores.show(console, table, metric)
    try:
        with (folder / TABLE).open("w", newline="", encoding="utf-8") as file:
            scores.write(table, file)
    except OSError as error:
        raise UsageError(
            f"--output={folder}: {TABLE} cannot be written ({disk.reason(error)}): make room, and "
            f"say the same again"
        ) from None
    comparing.draw(groups, _AXES, metric, folder / PICTURE)
    terminal.say(console, f"everything is in {folder}: {PICTURE}, {TABLE}, a folder for each run")
