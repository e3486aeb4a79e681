"""What a run has left on disk, read back: its settings, its measures and how it ended."""

import contextlib
import csv
import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

from ps_dqn import config as configuration
from ps_dqn.errors import UsageError
from ps_dqn.run import directory, paths


@dataclasses.dataclass(frozen=True)
class Measured:
    """A run that goes on, or has ended in whatever way."""

    path: pathlib.Path
    settings: dict[str, str]  # of all flags that its flagfile has, by name
    rows: list[dict[str, float]]  # of metrics.csv; NaN where nothing was measured
    summary: dict[str, Any] | None  # None: it goes on, or has been killed

    @property
    def env_id(self) -> str:
        """What it acts in."""
        return self.settings.get("env_id", "")

    @property
    def seed(self) -> str:
        """Its seed."""
        return self.settings.get("seed", "")

    @property
    def reason(self) -> str:
        """Why it ended; empty where it has not, as far as is known."""
        return str(self.summary["reason"]) if self.summary else ""

    def points(self, x: str, metric: str) -> list[tuple[float, float]]:
        """A metric over another column, where both were measured; of each place the last value."""
        known = {
            row[x]: row[metric]
            for row in self.rows
            if math.isfinite(row.get(x, math.nan)) and not math.isnan(row.get(metric, math.nan))
        }
        return sorted(known.items())

    def values(self, metric: str) -> list[float]:
        """A metric in the order in which it was measured, wherever it was."""
        found = [row.get(metric, math.nan) for row in self.rows]
        return [value for value in found if not math.isnan(value)]

    def last(self, metric: str) -> float:
        """What was measured last; NaN where nothing was."""
        return next(reversed(self.values(metric)), math.nan)


def read(path: pathlib.Path) -> Measured:
    """Reads a run's folder; what is not there yet is empty.

    Raises:
        FolderError: it cannot be looked at.
        UsageError: something else is in its files.
    """
    flagfile = path / directory.FLAGFILE
    with paths.looking(str(path)):
        try:
            text = flagfile.read_text(encoding="utf-8") if flagfile.exists() else ""
        except UnicodeDecodeError as error:
            raise _damaged(flagfile, error) from None
        return Measured(path, settings(text.splitlines()), rows(path), _summary(path))


def rows(path: pathlib.Path) -> list[dict[str, float]]:
    """The rows of a run's metrics.csv; one that is being written is left out.

    Raises:
        UsageError: there is something else in it.
    """
    found = []
    try:
        for row in directory.read_metrics(path):
            if None not in row.values():
                found.append({name: float(value or math.nan) for name, value in row.items()})
    except (ValueError, TypeError, csv.Error) as error:
        raise _damaged(path / directory.METRICS, error) from None
    return found


def _damaged(path: pathlib.Path, error: Exception) -> UsageError:
    return UsageError(f"{path}: is damaged ({error}): leave this run out")


def settings(lines: Iterable[str]) -> dict[str, str]:
    """The flags of a flagfile by name; switches are "true" or "false"."""
    switches = {field.name for field in configuration.fields()}
    found = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("--").partition("=")
        if not line.strip().startswith("--"):
            continue
        if equals:
            found[name] = value
        elif name.startswith("no") and name not in switches:
            found[name.removeprefix("no")] = "false"
        else:
            found[name] = "true"
    return found


def _summary(path: pathlib.Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):  # there is none, or it is being written
        content = json.loads((path / directory.SUMMARY).read_text(encoding="utf-8"))
        return content if isinstance(content, dict) and "reason" in content else None
    return None
