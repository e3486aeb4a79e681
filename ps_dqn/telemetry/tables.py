"""Tables that fit where they are shown: columns that have no room are left out, not cut off."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import rich.box
from rich.table import Table

_GAP = 2  # blanks from one column to the next


class Column(NamedTuple):
    """A column of some rows."""

    heading: str
    cell: Callable[[Any], str]  # of a row
    rank: int = 0  # those of higher ones are left out first
    left: bool = False  # justified that way


def make(columns: Sequence[Column], rows: Sequence[Any], width: int, title: str = "") -> Table:
    """A table without lines.

    Args:
        columns: in their order.
        rows: what the columns read.
        width: blanks that there are.
        title: above it.
    """
    cells = {each: [each.cell(row) for row in rows] for each in columns}
    shown = [each for each in columns if any(cells[each])]
    while sum(_width(each, cells[each]) for each in shown) > width and len(shown) > 1:
        shown.remove(max(reversed(shown), key=lambda each: each.rank))
    table = Table(
        title=title or None,
        title_justify="left",
        box=rich.box.SIMPLE_HEAD if title else None,
        show_edge=False,
        # With a line under the headings there is a blank between columns anyway.
        padding=(0, _GAP - 1 if title else _GAP, 0, 0),
        pad_edge=False,
        header_style="bold" if title else "dim",
    )
    for each in shown:
        justify: Any = "left" if each.left else "right"
        table.add_column(each.heading, justify=justify, no_wrap=True)
    for row in zip(*(cells[each] for each in shown), strict=True):
        table.add_row(*row)
    return table


def _width(column: Column, cells: Sequence[str]) -> int:
    return max(len(column.heading), *map(len, cells), 0) + _GAP


def number(value: float, form: str = ".1f") -> str:
    """For people; "-" where it is not known."""
    if math.isnan(value):
        return "-"
    return "none" if math.isinf(value) else format(value, form)


def optional(value: float, form: str = ".1f") -> str:
    """The same, and nothing where it is not known: a column of that is not shown."""
    return "" if math.isnan(value) else number(value, form)


def num_bytes(count: float) -> str:
    """Bytes for people; no text where they are not known."""
    if math.isnan(count):
        return ""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def duration(seconds: float) -> str:
    """For people: 42 s, 3:07 min, 1:02:33 h or 9 days; "-" where it is not known."""
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours >= 100:
        return f"{hours / 24:,.0f} days"
    return f"{hours:,}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"
