"""Lists runs: what they were and how they ended. `python -m ps_dqn.runs FOLDER`.

It reads what runs have left, also of those that go on, were cut off or are damaged.
"""

import contextlib
import csv
import datetime
import json
import math
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags as absl_flags

from ps_dqn.errors import FolderError, UsageError
from ps_dqn.flags import command_line
from ps_dqn.run import directory, finding, lock

FORMATS = ("table", "csv", "json")
# How people are told of a run that has said nothing of its end.
GOES_ON, CUT_OFF, DAMAGED, UNREADABLE = "goes on", "cut off", "damaged", "unreadable"
# Columns of the table, and how their values are shown.
_SHOWN: dict[str, tuple[str, Callable[[Any], str]]] = {
    "run": ("run", str),
    "env_id": ("environment", str),
    "presets": ("presets", str),
    "seed": ("seed", str),
    "env_steps": ("env steps", lambda steps: f"{steps:,.0f}"),
    "eval_return": ("last", lambda score: f"{score:,.1f}"),
    "best_eval_return": ("best", lambda score: f"{score:,.1f}"),
    "ended": ("ended", str),
    "seconds": ("seconds", lambda seconds: f"{seconds:,.1f}"),
    "when": ("when", lambda when: when[:16].replace("T", " ")),
}


def main(argv: Sequence[str]) -> int:
    """Reads the command line and prints; returns the exit code."""
    values = command_line.new_flags()
    absl_flags.DEFINE_enum(
        "format", "table", list(FORMATS), "How runs are printed.", flag_values=values
    )
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.runs [FOLDER…]",
            f"Lists the runs below a folder ({directory.RUNS}/), the newest last.",
            {"How to show them.": ("format",)},
        )
        return 0
    try:
        words = command_line.parse(values, argv, takes_words=True)
        folders = finding.runs(words or [str(directory.RUNS)])
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)
    rows = sorted(map(row_of, folders), key=lambda row: row["when"] or "")
    with contextlib.suppress(BrokenPipeError):
        _print(rows, values.format)
    return 0


def row_of(folder: pathlib.Path) -> dict[str, Any]:
    """What is known of a run; None where that is nothing.

    Args:
        folder: the run's.
    """
    from ps_dqn.telemetry import measured

    text, presets, rows, summary, ended = "", "", [], {}, ""
    try:
        text = (folder / directory.FLAGFILE).read_text(encoding="utf-8", errors="replace")
        presets = directory.read_presets(folder)
        found = measured.read(folder)
        rows, summary = found.rows, found.summary or {}
    except (OSError, FolderError):
        ended = UNREADABLE
    except (UsageError, ValueError, KeyError, TypeError, AttributeError, csv.Error):
        ended = DAMAGED
    settings = measured.settings(text.splitlines())
    evaluations = [row.get("eval/episode_return", math.nan) for row in rows]
    evaluations = [score for score in evaluations if not math.isnan(score)]
    last = rows[-1] if rows else {}
    if not ended:
        ended = str(summary.get("reason", GOES_ON if lock.may_be_held(folder) else CUT_OFF))
    return {
        "run": str(folder),
        "env_id": settings.get("env_id"),
        "presets": presets or None,
        "seed": settings.get("seed"),
        "env_steps": _number(summary.get("env_steps", last.get("env_steps"))),
        "eval_return": _number(
            summary.get("eval_return", evaluations[-1] if evaluations else None)
        ),
        "best_eval_return": _number(
            summary.get("best_eval_return", max(evaluations, default=None))
        ),
        "ended": ended,
        "seconds": _number(summary.get("training_seconds", last.get("seconds"))),
        "when": _last_written(folder),
    }


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _last_written(folder: pathlib.Path) -> str | None:
    times = []
    for name in (directory.SUMMARY, directory.METRICS, directory.FLAGFILE):
        with contextlib.suppress(OSError):
            times.append((folder / name).stat().st_mtime)
    if not times:
        return None
    return datetime.datetime.fromtimestamp(max(times)).astimezone().isoformat(timespec="seconds")


def _print(rows: Sequence[dict[str, Any]], form: str) -> None:
    if form == "json":
        print(json.dumps(rows, indent=2))
    elif form == "csv":
        writer = csv.DictWriter(sys.stdout, list(_SHOWN), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        _print_table(rows)
    sys.stdout.flush()


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    import rich.box
    from rich.console import Console
    from rich.table import Table

    # For a program or a file each run is on one line, however long.
    console = Console(width=None if sys.stdout.isatty() else 10_000)
    table = Table(box=rich.box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for name, (title, _) in _SHOWN.items():
        is_number = name in ("seed", "env_steps", "eval_return", "best_eval_return", "seconds")
        table.add_column(title, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        cells = {name: (row[name], show) for name, (_, show) in _SHOWN.items()}
        table.add_row(*("-" if value is None else show(value) for value, show in cells.values()))
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


if __name__ == "__main__":
    command_line.run_main(main)
