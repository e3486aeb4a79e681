"""The runs as pictures."""

import pathlib
from typing import Any

_LATE = "#d0d0d0"


def _names(summary: list[dict[str, Any]]) -> list[str]:
    return [one["peer"] for one in summary]


def scores(summary: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Seconds from the command until solved, of what they are, by problem.

    Args:
        summary: of `tables.scores`.
        path: of the picture.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    problems = list(dict.fromkeys(one["problem"] for one in summary))
    figure, panels = plt.subplots(
        1, len(problems), figsize=(6.5 * len(problems), 4.2), layout="constrained", squeeze=False
    )
    for panel, problem in zip(panels[0], problems, strict=True):
        mine = [one for one in summary if one["problem"] == problem]
        for i, one in enumerate(mine):
            if one["command_seconds"] is None:
                why = "unavailable" if not one["runs"] else f"0 of {one['runs']} solved"
                panel.text(0, i, f" {why}", va="center", color="gray")
                continue
            whole, part = one["command_seconds"]["median"], one["training_seconds"]["median"]
            panel.barh(i, whole - part, color=_LATE, label="until the first env step")
            panel.barh(i, part, left=whole - part, color="C0", label="training")
            ends = one["command_seconds"]["least"], one["command_seconds"]["most"]
            panel.plot(ends, (i, i), "|-", color="black", linewidth=1)
            panel.text(ends[1], i, f"  {whole:.1f} s", va="center")
        panel.set_yticks(range(len(mine)), _names(mine))
        panel.invert_yaxis()
        panel.margins(x=0.2)
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.set_xlabel("seconds: bars to the median, lines from the least to the most")
        panel.set_title(f"{problem}: command to solved, evaluations not counted")
        handles = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
        panel.legend(handles.values(), handles.keys(), loc="lower right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def rates(summary: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Updates and environment steps a second.

    Args:
        summary: of `tables.rates`.
        path: of the picture.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    measured = [one for one in summary if one["updates_per_second"] is not None]
    figure, panels = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    columns = {"updates_per_second": "updates/s", "env_steps_per_second": "env steps/s"}
    for panel, (column, title) in zip(panels, columns.items(), strict=True):
        for i, one in enumerate(measured):
            values = one[column]
            color = "C0" if one["peer"].startswith("ours") else _LATE
            panel.barh(i, values["median"], color=color)
            panel.plot((values["least"], values["most"]), (i, i), "|-", color="black", linewidth=1)
            panel.text(values["most"], i, f"  {values['median']:,.0f}", va="center")
        panel.set_yticks(range(len(measured)), _names(measured))
        panel.invert_yaxis()
        panel.margins(x=0.2)
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.set_xlabel(title)
    figure.suptitle("Bars to the median, lines from the least to the most")
    figure.savefig(path, dpi=110)
    plt.close(figure)
