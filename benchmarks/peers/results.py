"""The runs that were made, in a file that a later benchmark goes on with."""

import csv
import json
import os
import pathlib
import platform
import statistics
from collections.abc import Iterable
from typing import Any

Row = dict[str, str]


class Results:
    """Rows, by what they are of.

    Args:
        path: of the CSV; rows that it has are kept, also where it has fewer columns.
        key: columns that say what a row is of.
        measured: columns that say what was found.
    """

    def __init__(self, path: pathlib.Path, key: Iterable[str], measured: Iterable[str]) -> None:
        self.path, self._key, self._measured = path, tuple(key), tuple(measured)

    def read(self) -> list[Row]:
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return [dict.fromkeys((*self._key, *self._measured), "") | row for row in rows]

    def has(self, key: dict[str, object]) -> bool:
        """Whether a run was made. What could not be measured is tried again."""
        return any(
            not row["unavailable"] and self._is_of(row, key, loosely=True) for row in self.read()
        )

    def _is_of(self, row: Row, key: dict[str, object], loosely: bool = False) -> bool:
        wanted = {name: str(key[name]) for name in self._key}
        # Before turns were kept, a run of ours was beside all.
        if loosely and not row["beside"]:
            wanted["beside"] = ""
        return all(row[name] == wanted[name] for name in self._key)

    def add(self, key: dict[str, object], found: dict[str, object]) -> None:
        """Writes a row, for one that said that this could not be measured."""
        rows = [row for row in self.read() if not (row["unavailable"] and self._is_of(row, key))]
        names = (*self._key, *self._measured)
        shown = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in (key | found).items()}
        new = {name: "" if shown.get(name) is None else str(shown[name]) for name in names}
        part = self.path.with_suffix(".part")
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n", extrasaction="ignore")
            writer.writeheader()
            writer.writerows([*rows, new])
        part.replace(self.path)


def numbers(rows: Iterable[Row], name: str) -> list[float]:
    """The values of a column, where it has them."""
    return [float(row[name]) for row in rows if row[name]]


def spread(values: list[float]) -> dict[str, float] | None:
    """Median and range."""
    if not values:
        return None
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratios(rows: list[Row], peer: str, amount: Any) -> list[float]:
    """A peer's amount by that of ours that ran before it, for each pair that has both.

    Args:
        rows: of one problem.
        peer: its name.
        amount: of a row: a number, or None.
    """
    found = []
    for row in rows:
        if row["peer"] != peer:
            continue
        beside = [
            ours
            for ours in rows
            if ours["peer"] == "ours" and ours["beside"] == peer and ours["seed"] == row["seed"]
        ]
        pairs = [(amount(row), amount(ours)) for ours in beside]
        found += [theirs / mine for theirs, mine in pairs if theirs and mine]
    return found


def write_json(path: pathlib.Path, rows: list[Row], summary: list[dict[str, Any]]) -> None:
    """The rows, what they come to, and the machine."""
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    machine["platform"] = platform.platform()
    text = json.dumps({"machine": machine, "summary": summary, "rows": rows}, indent=1)
    path.write_text(text + "\n")
