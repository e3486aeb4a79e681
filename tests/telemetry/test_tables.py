"""Tables leave out what has no room, and write numbers for people."""

import io
import math

import pytest
from rich.console import Console

from ps_dqn.run import terminal
from ps_dqn.telemetry import tables
from ps_dqn.telemetry.tables import Column

COLUMNS = (
    Column("name", str, left=True),
    Column("its length", lambda row: str(len(row)), 2),
    Column("twice", lambda row: row * 2, 1),
    Column("nothing", lambda row: ""),
)
ROWS = ["worker", "server"]


def shown(width: int, title: str = "") -> list[str]:
    output = io.StringIO()
    console = Console(file=output, width=width)
    terminal.show(console, tables.make(COLUMNS, ROWS, width, title))
    return output.getvalue().splitlines()


def test_all_columns_that_have_something_where_there_is_room() -> None:
    assert shown(40) == [
        "name    its length         twice",
        "worker           6  workerworker",
        "server           6  serverserver",
    ]


@pytest.mark.parametrize(
    ("width", "first"), [(33, "name           twice"), (21, "name"), (5, "name")]
)
def test_columns_are_left_out_before_any_is_cut_off(width: int, first: str) -> None:
    lines = shown(width)
    assert lines[0] == first
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("width", range(10, 60))
def test_nothing_is_cut_off_under_a_title_either(width: int) -> None:
    text = "\n".join(shown(width, "Workers"))
    assert "…" not in text
    assert "worker" in text.split()
    assert ("workerworker" in text.split()) == ("twice" in text.split())


def test_into_a_pipe_no_line_ends_with_blanks() -> None:
    lines = shown(60, "Workers")
    assert lines[0] == "Workers"
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.4, "0 s"), (59.4, "59 s"), (187, "3:07 min"), (3753, "1:02:33 h"), (math.nan, "-")),
        (10 * 86_400, "10 days"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert tables.duration(seconds) == text


def test_bytes() -> None:
    assert [tables.num_bytes(each) for each in (999, 12_345, 2.5e9, math.nan)] == [
        *("999 B", "12 kB", "2.5 GB", "")
    ]
