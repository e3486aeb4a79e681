"""What a person sees of a run: lines, or a panel where the output is a terminal."""

import dataclasses
import io
import math

from rich.console import Console

from ps_dqn.config import Config
from ps_dqn.state import Counters
from ps_dqn.telemetry.display import LiveDisplay, PlainDisplay
from ps_dqn.telemetry.figures import RunFigures, TaskFigures

RECENT = {
    "train/episode_return": 21.5,
    "train/epsilon": 0.25,
    "train/staleness": 1.25,
    "rate/env_steps_per_second": 1000.0,
    "rate/updates_per_second": 125.0,
}


def figures(recent: dict[str, float] | None = None, **values: object) -> RunFigures:
    known = {
        "state": "training",
        "env_steps_goal": 10_000,
        "seconds": 2.0,
        "counters": Counters(3, 192, 1536, 20, 96),
        "eval_return": 30.25,
        "best_return": 31.5,
        "target_return": 475.0,
        "workers_reporting": 2,
        "recent": RECENT | (recent or {}),
        "env_steps_now": 1536,
        "updates_now": 192,
    }
    return dataclasses.replace(RunFigures.planned(Config(), 2), **known | values)


def line_of(shown: RunFigures) -> str:
    output = io.StringIO()
    PlainDisplay(Console(file=output, width=300), interval=0.0).show(shown)
    return output.getvalue()


def test_a_line_has_what_is_known() -> None:
    line = line_of(figures())
    for words in ("env_steps      1,536", "return 21.5", "staleness 1.2", "workers 2/2"):
        assert words in line


def test_what_is_not_known_is_a_dash() -> None:
    # No push was decided yet, and there was no evaluation.
    line = line_of(figures({"train/staleness": math.nan}, eval_return=math.nan))
    assert "staleness -" in line
    assert "eval -" in line
    assert "nan" not in line


def test_a_process_that_is_killed_leaves_the_cursor() -> None:
    output = io.StringIO()
    display = LiveDisplay(Console(file=output, force_terminal=True, color_system=None, width=200))
    hidden, shown = (output.getvalue().rfind(f"\x1b[?25{end}") for end in "lh")
    display.close()
    assert -1 < hidden < shown


def panel(width: int, *tasks: TaskFigures) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, color_system=None, width=width, height=40)
    display = LiveDisplay(console)
    display.show(figures(tasks=tasks))
    display._live.refresh()
    display.close()
    return output.getvalue()


def test_at_60_columns_every_task_says_its_memory_and_each_rate_that_has_room() -> None:
    worker = TaskFigures(
        *("worker 0", True, "between closures"),
        env_steps_per_second=1288.1,
        updates_per_second=251.2,
        staleness=1.0,
        replay_rows=19_456,
        memory=288e6,
    )
    server = TaskFigures(
        *("replay server 0", False, "serving"),
        adds_per_second=2072.0,
        samples_per_second=16_973.0,
        replay_rows=19_456,
        memory=120e6,
    )
    text = panel(60, worker, server)
    for words in ("288 MB", "120 MB", "1,288.1", "251.2", "2,072"):
        assert words in text, text


def test_the_panel_has_what_the_table_of_metrics_displays() -> None:
    output = io.StringIO()
    display = LiveDisplay(Console(file=output, force_terminal=True, color_system=None, width=200))
    display.show(figures())
    display._live.refresh()
    display.close()
    for words in (
        *("1,536 of 10,000 env steps", "evaluation 30.2", "best 31.5", "target 475.0"),
        *("updates 192", "workers 2/2", "return 21.5", "staleness 1.2", "epsilon 0.250"),
        *("env steps/s 1,000", "updates/s 125"),
    ):
        assert words in output.getvalue()
