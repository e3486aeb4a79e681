"""Curves of groups of runs: a row of panels for each environment, a column for each axis."""

import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any

from ps_dqn import pictures
from ps_dqn.plot import groups as grouping
from ps_dqn.plot import interquartile
from ps_dqn.plot.groups import Group
from ps_dqn.telemetry import metrics

# What curves may be drawn over, and how it is called.
AXES = {
    "env_steps": "environment steps, all workers",
    "seconds": "time of training (s)",
    "updates": "updates, all workers",
}
FORMATS = (".png", ".svg", ".pdf")
_TITLES = {
    "eval/episode_return": "episode return, greedy evaluations",
    "train/episode_return": "episode return, exploring",
}
_WIDEST = 60  # of a line in the legend (characters)


def draw(groups: Sequence[Group], axes: Sequence[str], metric: str, path: pathlib.Path) -> None:
    """Draws them into a file, whose ending says how.

    Args:
        groups: their runs have all measured the metric.
        axes: of `AXES`.
        metric: a column of metrics.csv.
        path: the picture.

    Raises:
        OSError: it cannot be written.
    """
    environments = list(dict.fromkeys(group.env_id for group in groups))
    shape = len(environments), len(axes)
    with pictures.figure(6.5 * shape[1], 4.5 * shape[0]) as figure:
        panels = figure.subplots(*shape, squeeze=False)
        for row, env_id in zip(panels, environments, strict=True):
            here = [group for group in groups if group.env_id == env_id]
            for panel, x in zip(row, axes, strict=True):
                _panel(panel, here, x, metric)
                panel.set_title(env_id)
            row[0].set_ylabel(title_of(metric))
            row[0].legend(loc="best", fontsize="small")
        figure.supxlabel(
            f"Lines: interquartile means over runs; bands: their {interquartile.LEVEL:.0%} "
            f"bootstrap intervals; thin: single runs.",
            fontsize="small",
        )
        figure.savefig(path, dpi=120)


def title_of(metric: str) -> str:
    """What a metric is, with its unit."""
    units = {each.name: each.unit for each in metrics.METRICS}
    unit = units.get(metric, "")
    return _TITLES.get(metric, f"{metric} ({unit})" if unit else metric)


def _panel(panel: Any, groups: Sequence[Group], x: str, metric: str) -> None:
    for i, group in enumerate(groups):
        color, curve = f"C{i % 10}", grouping.curve(group, x, metric)
        label = f"{group.label} ({group.size})" if group.label else group.size
        marker = {"marker": "o"} if len(curve.x) == 1 else {}
        shown = "\n".join(textwrap.wrap(label, _WIDEST))
        panel.plot(curve.x, curve.mean, color=color, label=shown, **marker)
        if len(group.runs) > 1:
            panel.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.2, lw=0)
            for run in group.runs:
                points = zip(*run.points(x, metric), strict=True)
                panel.plot(*points, color=color, alpha=0.3, lw=0.7)
    panel.set_xlabel(AXES[x])
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.yaxis.set_major_formatter("{x:,g}")
    panel.grid(alpha=0.3)
