"""The CSV of a benchmark that goes on where it was ended."""

import csv
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any


def read(path: pathlib.Path | None, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a file; none where there is none yet.

    Raises:
        SystemExit: it has other columns; one line for a person.
    """
    if path is None or not path.exists():
        return []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if list(reader.fieldnames or ()) != list(columns):
            raise SystemExit(
                f"error: {path}: its columns are not those of this program, which may be older or "
                f"newer: name another file"
            )
        return list(reader)


def append(path: pathlib.Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows, with the names of their columns where the file is new."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)
