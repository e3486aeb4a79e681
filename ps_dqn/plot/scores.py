"""What groups of runs have come to, as a table."""

import csv
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TextIO

import numpy as np
from rich.console import Console
from rich.table import Table

from ps_dqn.plot import interquartile
from ps_dqn.plot.groups import Group
from ps_dqn.run import terminal
from ps_dqn.telemetry.measured import Measured

ALL = "all, as shares"  # in the place of an environment
_WIDTH = 120  # of a table that no terminal shows (characters)


@dataclasses.dataclass(frozen=True)
class Score:
    """One group's."""

    env_id: str
    settings: str
    runs: int
    size: str  # the runs, for people
    at_end: float  # interquartile mean of the runs' last values
    at_end_low: float
    at_end_high: float
    highest: float  # of their highest values
    overall: float  # of their means over the run, by environment steps
    env_steps: float  # medians
    seconds: float


def score(group: Group, metric: str) -> Score:
    """The scores of a group whose runs have all measured the metric."""
    last = _each(group, lambda run: run.last(metric))
    low, high = interquartile.interval(last[:, np.newaxis])
    return Score(
        group.env_id,
        group.label,
        len(group.runs),
        group.size,
        float(interquartile.mean(last)),
        float(low[0]),
        float(high[0]),
        float(interquartile.mean(_each(group, lambda run: max(run.values(metric))))),
        float(interquartile.mean(_each(group, lambda run: _overall(run, metric)))),
        float(np.median(_each(group, lambda run: run.last("env_steps")))),
        float(np.median(_each(group, lambda run: run.last("seconds")))),
    )


def over_environments(groups: Sequence[Group], metric: str) -> list[Score]:
    """Scores of the same settings in all environments, where there are several of both.

    A last value counts as the share of the way from the lowest to the highest of its environment,
    over all runs that are compared.

    Args:
        groups: their runs have all measured the metric.
        metric: a column.
    """
    by_label: dict[str, dict[str, Group]] = {}
    for group in groups:
        by_label.setdefault(group.label, {})[group.env_id] = group
    environments = {group.env_id for group in groups}
    whole = {label: each for label, each in by_label.items() if each.keys() == environments}
    if len(environments) < 2 or len(whole) < 2:
        return []
    last = {id(group): _each(group, lambda run: run.last(metric)) for group in groups}
    ends = {
        env_id: np.concatenate([last[id(each)] for each in groups if each.env_id == env_id])
        for env_id in environments
    }
    found = []
    for label, each in whole.items():
        strata = [
            (last[id(group)] - ends[env_id].min()) / (np.ptp(ends[env_id]) or 1.0)
            for env_id, group in each.items()
        ]
        runs = sum(map(len, strata))
        nothing = [math.nan] * 4
        found.append(
            Score(ALL, label, runs, f"{runs} runs", *interquartile.over_strata(strata), *nothing)
        )
    return found


def show(console: Console, scores: Sequence[Score], metric: str) -> None:
    """Prints them for people."""
    table = Table(
        title=f"{metric}: interquartile means over runs [{interquartile.LEVEL:.0%} interval]",
        title_justify="left",
    )
    if several := len({each.env_id for each in scores}) > 1:
        table.add_column("environment")
    table.add_column("settings", overflow="fold", min_width=16)
    for heading in ("runs", "at the end", "highest", "whole run", "env steps", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in scores:
        interval = ""
        if not math.isnan(each.at_end_low):
            interval = f" [{number(each.at_end_low)}, {number(each.at_end_high)}]"
        table.add_row(
            *([each.env_id] if several else []),
            each.settings or ("the same" if each.runs > 1 else each.env_id),
            each.size,
            f"{number(each.at_end)}{interval}",
            number(each.highest),
            number(each.overall),
            "" if math.isnan(each.env_steps) else f"{each.env_steps:,.0f}",
            "" if math.isnan(each.seconds) else f"{each.seconds:,.0f}",
        )
    if not console.is_terminal:
        console.width = _WIDTH
    terminal.show(console, table)


def write(scores: Sequence[Score], file: TextIO) -> None:
    """Writes them for programs, as CSV."""
    names = [field.name for field in dataclasses.fields(Score) if field.name != "size"]
    writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for each in scores:
        row = dataclasses.asdict(each)
        writer.writerow({k: "" if _is_nan(v) else v for k, v in row.items()})


def number(value: float) -> str:
    """A score for people: four digits, thousands separated; nothing where there is none."""
    if math.isnan(value):
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _each(group: Group, of: Callable[[Measured], float]) -> np.ndarray:
    return np.array([of(run) for run in group.runs], np.float64)


def _overall(run: Measured, metric: str) -> float:
    """The mean over the run: what is high early is worth more (sample efficiency)."""
    x, y = np.array(run.points("env_steps", metric)).T
    if not x[-1] > x[0]:
        return float(y[-1])
    # NumPy 1 and 2 have no name for it that is the same.
    return float(np.sum((y[1:] + y[:-1]) / 2 * np.diff(x)) / (x[-1] - x[0]))


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
