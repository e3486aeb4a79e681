"""Runs of the same settings, which only their seeds tell apart, and their curves."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from ps_dqn.plot import interquartile
from ps_dqn.telemetry.measured import Measured

# What may differ between the runs of a group.
APART = ("seed", "run_dir")
POINTS = 200  # of a curve


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs of the same settings."""

    env_id: str
    label: str  # what tells it from the other groups of its environment; "" where it is alone
    runs: tuple[Measured, ...]

    @property
    def size(self) -> str:
        """How many runs, for people."""
        runs, seeds = len(self.runs), len({run.seed for run in self.runs})
        if runs == seeds:
            return f"{runs} seed" + ("" if runs == 1 else "s")
        return f"{runs} runs of {seeds} seed" + ("" if seeds == 1 else "s")

    def having(self, metric: str) -> "Group":
        """The same with the runs that have measured something."""
        return dataclasses.replace(self, runs=tuple(r for r in self.runs if r.values(metric)))


@dataclasses.dataclass(frozen=True)
class Curve:
    """The interquartile mean of a group, with its interval."""

    x: np.ndarray  # [points]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def of(runs: Sequence[Measured]) -> list[Group]:
    """The groups, by environment, in the order in which their first runs are named."""
    together: dict[str, dict[tuple, list[Measured]]] = {}
    for run in runs:
        key = tuple(sorted((n, v) for n, v in run.settings.items() if n not in APART))
        together.setdefault(run.env_id, collections.defaultdict(list))[key].append(run)
    return [
        Group(env_id, label, tuple(found))
        for env_id, same in together.items()
        for label, found in zip(_labels([dict(key) for key in same]), same.values(), strict=True)
    ]


def _labels(settings: Sequence[dict[str, str]]) -> list[str]:
    """What differs, of each."""
    names = sorted(set().union(*settings))
    differ = [name for name in names if len({each.get(name) for each in settings}) > 1]
    return [", ".join(f"{name}={each.get(name, '')}" for name in differ) for each in settings]


def curve(group: Group, x: str, metric: str) -> Curve:
    """A group's curve from where all of its runs have begun to where one of them has ended.

    A run that was solved has ended early because it was good: it keeps its last value to where the
    others end.

    Args:
        group: its runs have measured the metric.
        x: a column.
        metric: another one.
    """
    points = [np.array(run.points(x, metric)).T for run in group.runs]
    unsolved = [
        found for found, run in zip(points, group.runs, strict=True) if run.reason != "solved"
    ]
    ends = [found[0][-1] for found in unsolved]
    end = min(ends) if ends else max(found[0][-1] for found in points)
    begin = min(max(found[0][0] for found in points), end)
    places = np.linspace(begin, end, POINTS if end > begin else 1)
    values = np.stack([np.interp(places, *found) for found in points])
    return Curve(places, interquartile.mean(values), *interquartile.interval(values))
