"""Timelines as a picture: a row for each task, a colour for each kind of work."""

import pathlib
from collections.abc import Sequence
from typing import Any

from ps_dqn import pictures
from ps_dqn.profiling import phases
from ps_dqn.profiling.rows import Row, Segment, segments
from ps_dqn.profiling.timeline import BESIDE, MAIN

# First words of spans, by what they are in the legend, and its colour.
KINDS = {
    "starting, checking, closing": ("tab:gray", "starting checking looking preparing opening "
                                    "closing draining fetching asking"),
    "importing": ("tab:blue", "importing"),
    "connecting, registering": ("tab:cyan", "connecting registering forming"),
    "tracing": ("tab:purple", "tracing"),
    "building, creating": ("tab:brown", "building creating"),
    "collecting": ("tab:olive", "collecting stepping"),
    "sampling": ("gold", "sampling"),
    "compiling": ("tab:red", "compiling"),
    "learning": ("tab:green", "learning"),
    "pulling, pushing": ("tab:orange", "pulling pushing adding answering applying taking"),
    "evaluating": ("tab:pink", "evaluating"),
    "saving, drawing": ("black", "saving drawing showing"),
    "waiting": ("lightgray", "waiting"),
}  # fmt: skip
OTHER = ("other", "thistle")
# Tasks that are shown, of those there are; the file has all of them.
MOST_ROWS = 20
# What is looked at for itself, where it is a small part of the run; how much more is shown of it.
SMALL_PART, MARGIN = 0.7, 1.15
_BINS = 1500  # of the time, across the picture
_HEIGHTS = 3  # of names above a panel
_INCHES, _LETTER = 13.0, 0.062  # width of a panel, and of a letter in it
_KIND_OF = {word: kind for kind, (_, words) in KINDS.items() for word in words.split()}


def draw(path: pathlib.Path, rows: Sequence[Row], total: float, title: str) -> None:
    """Draws all tasks over seconds from the command on.

    Args:
        path: of the picture.
        rows: of the tasks.
        total: from the command to its end (seconds).
        title: above it.

    Raises:
        OSError: it cannot be written.
    """
    shown = rows[:MOST_ROWS]
    found = [_bands(row) for row in shown]
    panels = _panels(shown, total)
    height = (0.42 * len(shown) + 1.1) * len(panels) + 1.2
    with pictures.figure(_INCHES + 2, height) as figure:
        kinds: set[str] = set()
        axes = figure.subplots(len(panels), squeeze=False)
        for (name, began, ended), [panel] in zip(panels, axes, strict=True):
            for place, bands in enumerate(found):
                for number, band in enumerate(bands):
                    room = 0.8 / len(bands)
                    low = place - 0.4 + number * room
                    kinds |= _band(panel, band, (began, ended), low, room)
            _instants(panel, shown, began, ended)
            panel.set_title(name, loc="left", fontsize="medium", pad=34)
            panel.set_xlim(began, ended)
            panel.set_ylim(len(shown) - 0.5, -0.5)
            panel.set_yticks(range(len(shown)), [row.task for row in shown])
            panel.set_xlabel("seconds from the command")
        left_out = len(rows) - len(shown)
        more = f"; {left_out} more tasks are in the file" * (left_out > 0)
        figure.suptitle(f"{title}: from the command to the result{more}")
        _legend(figure, kinds)
        figure.savefig(path, dpi=100)


def _legend(figure: Any, kinds: set[str]) -> None:
    """Says what the colours of these kinds are."""
    from matplotlib.patches import Patch

    colors = {kind: color for kind, (color, _) in KINDS.items()} | {OTHER[0]: OTHER[1]}
    patches = [Patch(color=colors[kind], label=kind) for kind in colors if kind in kinds]
    figure.legend(handles=patches, loc="outside lower center", ncols=7, fontsize="small")


def kind_of(name: str) -> str:
    """What a span is in the legend."""
    return _KIND_OF.get(name.split()[0], OTHER[0])


def _panels(rows: Sequence[Row], total: float) -> list[tuple[str, float, float]]:
    """What is shown, each from here to there."""
    panels = [("the whole run", 0.0, total)]
    updated = phases.first_update(rows)
    if updated is not None and updated * MARGIN < SMALL_PART * total:
        panels.insert(0, ("until the first update", 0.0, updated * MARGIN))
    trained = next((row.instants.get("end of training") for row in rows), None)
    if trained is not None and (total - trained) * MARGIN < SMALL_PART * total:
        panels.append(("the end", total - (total - trained) * MARGIN, total))
    return panels


def _bands(row: Row) -> list[list[Segment]]:
    """What is drawn above each other: what a task does beside, where it does that at once."""
    lanes = [segments(row.spans, [lane]) for lane in (MAIN, BESIDE)]
    # Of those put together nobody knows which were at the same time.
    alone = [[each for each in lane if each.share == 1.0] for lane in lanes]
    both = sum(_overlap(each, other) for each in alone[0] for other in alone[1])
    least = min(sum(each.seconds for each in lane) for lane in alone)
    return lanes if both > 0.1 * least > 0 else [[*lanes[0], *lanes[1]]]


def _overlap(one: Segment, other: Segment) -> float:
    return max(min(one.ended, other.ended) - max(one.began, other.began), 0.0)


def _band(
    panel: Any, band: list[Segment], view: tuple[float, float], low: float, room: float
) -> set[str]:
    """Draws segments; which kinds there are. Where many are in one place, each has its share."""
    import numpy as np

    began, ended = view
    edges = np.linspace(began, ended, _BINS + 1)
    shares: dict[str, Any] = {}
    for each in band:
        covered = np.minimum(edges[1:], each.ended) - np.maximum(edges[:-1], each.began)
        if (covered > 0).any():
            kind = kind_of(each.name)
            width = (ended - began) / _BINS
            part = np.clip(covered, 0, None) / width * each.share
            shares[kind] = shares.get(kind, 0.0) + part
    whole = np.maximum(sum(shares.values(), np.zeros(_BINS)), 1.0)
    bottom = np.full(_BINS, low + room)
    for kind, part in shares.items():
        top = bottom - room * part / whole
        color = KINDS[kind][0] if kind in KINDS else OTHER[1]
        panel.fill_between(
            np.repeat(edges, 2)[1:-1], np.repeat(bottom, 2), np.repeat(top, 2), color=color, lw=0
        )
        bottom = top
    for each in band:
        if each.share == 1.0:
            _label(panel, each, view, low + room / 2)
    return set(shares)


def _label(panel: Any, segment: Segment, view: tuple[float, float], middle: float) -> None:
    """What a segment is and how long, if it has room for that."""
    began, ended = max(segment.began, view[0]), min(segment.ended, view[1])
    letters = int((ended - began) / (view[1] - view[0]) * _INCHES / _LETTER)
    seconds = f"{segment.ended - segment.began:.2f} s"
    texts = (f"{segment.name} {seconds}", segment.name, seconds)
    text = next((each for each in texts if len(each) <= letters), "")
    if not text:
        return
    dark = kind_of(segment.name) not in ("waiting", "sampling", OTHER[0])
    panel.text(
        (began + ended) / 2, middle, text, ha="center", va="center", fontsize=7,
        color="white" if dark else "black",
    )  # fmt: skip


def _instants(panel: Any, rows: Sequence[Row], began: float, ended: float) -> None:
    """Lines for what happened first, or once; names above, where there is room for them."""
    first: dict[str, float] = {}
    for row in rows:
        for name, at in row.instants.items():
            if began <= at <= ended:
                first[name] = min(at, first.get(name, at))
    taken = [began] * _HEIGHTS  # until where there are names, at each height
    for name, at in sorted(first.items(), key=lambda each: each[1]):
        panel.axvline(at, color="black", lw=0.6, ls=":")
        text = f"{name} {at:.2f} s"
        width = len(text) * _LETTER / _INCHES * (ended - began)
        left = max(min(at, ended - width), began)
        number = next((i for i, until in enumerate(taken) if until <= left), None)
        if number is not None:
            taken[number] = left + width
            over = (0, 3 + 10 * number)  # points
            where = {"xy": (left, 1), "xycoords": ("data", "axes fraction")}
            panel.annotate(text, **where, xytext=over, textcoords="offset points", fontsize=7)
