"""What a person sees while a run goes on: a live display, or plain lines."""

import collections
import math
import time
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ps_dqn.run import terminal
from ps_dqn.telemetry import metrics, tables
from ps_dqn.telemetry.figures import RunFigures, TaskFigures
from ps_dqn.telemetry.tables import Column, number

# Phases of which people have another idea.
_WORDS = {"gradient": "learning", "dispatch": "between closures", "waiting": "waiting for others"}
_GAP = 3  # blanks between the panel's cells
_LONGEST_BAR = 40


class Display(Protocol):
    """Shows figures of the run and says lines."""

    interval: float  # seconds that the figures shown are of

    def show(self, figures: RunFigures) -> None:
        """New figures; may be left out if the last ones are recent."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def close(self) -> None:
        """Leaves the screen to others."""


class PlainDisplay:
    """One line for each interval."""

    def __init__(self, console: Console, interval: float):
        self._console = console
        self._last = time.perf_counter()
        self.interval = interval

    def show(self, figures: RunFigures) -> None:
        """Prints a line, unless there was one in this interval."""
        now = time.perf_counter()
        if now - self._last < self.interval:
            return
        self._last = now
        recent = figures.recent
        self.say(
            f"{figures.seconds:7.1f} s  env_steps {figures.env_steps_now:>10,.0f}  "
            f"updates {figures.updates_now:>9,.0f}  "
            f"return {number(recent['train/episode_return'])}  "
            f"eval {number(figures.eval_return)}  "
            f"epsilon {number(recent['train/epsilon'], '.3f')}  "
            f"{number(figures.rate('env_steps_per_second'), ',.0f')} env steps/s  "
            f"{number(figures.rate('updates_per_second'), ',.0f')} updates/s  "
            f"staleness {number(recent['train/staleness'])}  workers {_workers(figures)}"
            f"{_phases(figures)}  left {tables.duration(figures.seconds_left)}"
        )

    def say(self, line: str) -> None:
        """Prints it."""
        terminal.say(self._console, line)

    def close(self) -> None:
        """Nothing to leave."""


class LiveDisplay:
    """A display that is drawn over itself."""

    interval = 1.0

    def __init__(self, console: Console):
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()
        console.show_cursor()  # it hides it, and a process that is killed would leave it so

    def show(self, figures: RunFigures) -> None:
        """Draws the panel anew."""
        self._live.update(_panel(figures, self._console.width, self._console.height))

    def say(self, line: str) -> None:
        """Prints it."""
        terminal.say(self._console, line)

    def close(self) -> None:
        """Wipes the panel away."""
        self._live.stop()


def make(console: Console, log_interval: float) -> Display:
    """The display that fits the output."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console, log_interval)


def _panel(figures: RunFigures, width: int, height: int) -> Group:
    goal = figures.env_steps_goal
    steps = f"{figures.env_steps_now:,.0f} of {goal:,} env steps"
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        Text(steps, no_wrap=True),
        ProgressBar(
            total=goal,
            completed=min(figures.env_steps_now, goal),
            width=max(min(_LONGEST_BAR, width - len(steps) - 2), 1),
        ),
    )
    cells = [
        ("spent", tables.duration(figures.seconds)),
        ("left", tables.duration(figures.seconds_left)),
        ("evaluation", number(figures.eval_return)),
        ("best", number(figures.best_return)),
        ("target", number(figures.target_return)),
        ("updates", f"{figures.updates_now:,.0f}"),
        ("workers", _workers(figures)),
    ]
    for metric in metrics.METRICS:
        if metric.display:
            value = figures.recent.get(metric.name, float("nan"))
            if metric.is_rare and math.isnan(value):
                continue
            if metric.name.startswith("rate/"):
                value = figures.rate(metric.name.removeprefix("rate/"))
            cells.append((metric.display, number(value, metric.form)))
    if known := tables.num_bytes(figures.memory):
        cells.append(("coordinator's memory", known))
    grid = _grid(cells, width)
    parts: list[RenderableType] = [bar, grid]
    room = height - 2 - grid.row_count
    for columns, is_worker in ((_WORKERS, True), (_SERVERS, False)):
        rows = [each for each in figures.tasks if each.is_worker == is_worker]
        most = room - 2  # with its heading, and a line about those that are left out
        if not rows or most < 1:
            continue
        parts.append(tables.make(columns, rows[:most], width))
        room -= 1 + min(len(rows), most)
        if len(rows) > most:
            parts.append(Text(f"and {len(rows) - most} more, for which there is no room"))
            room -= 1
    return Group(*parts)


def _grid(cells: list[tuple[str, str]], width: int) -> Table:
    """Names and values in as many columns as fit."""
    lengths = [len(name) + 1 + len(value) for name, value in cells]
    for columns in range(6, 0, -1):
        widths = [max(lengths[first::columns], default=0) for first in range(columns)]
        if sum(widths) + _GAP * (columns - 1) <= width:
            break
    table = Table.grid(padding=(0, _GAP, 0, 0))
    texts = [Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in cells]
    for first in range(0, len(texts), columns):
        table.add_row(*texts[first : first + columns])
    return table


def _workers(figures: RunFigures) -> str:
    return f"{figures.workers_reporting}/{figures.workers}"


def _phases(figures: RunFigures) -> str:
    """What workers are at, as the end of a line: how many of them, where there are several."""
    workers = [each for each in figures.tasks if each.is_worker]
    if not any(each.is_heard for each in workers):
        return ""
    filling = [each for each in workers if each.is_filling]
    doing = collections.Counter(_WORDS.get(each.doing, each.doing) for each in workers)
    parts = [name if len(workers) == 1 else f"{count} {name}" for name, count in doing.items()]
    if filling:
        rows, goal = (
            sum(getattr(each, name) for each in filling) for name in ("replay_rows", "replay_goal")
        )
        parts.append(f"replay {rows:,.0f} of the {goal:,.0f} it needs")
    return f" ({', '.join(parts)})" if parts else ""


def _doing(task: TaskFigures) -> str:
    doing = _WORDS.get(task.doing, task.doing)
    return f"{doing} {task.seconds:.0f} s" if task.seconds >= 1 else doing


def _replay(task: TaskFigures) -> str:
    rows = tables.optional(task.replay_rows, ",.0f")
    return f"{rows} of {task.replay_goal:,.0f}" if task.is_filling else rows


_WORKERS = (
    Column("", lambda task: task.name, left=True),
    Column("at", _doing, left=True),
    Column("env steps/s", lambda task: tables.optional(task.env_steps_per_second, ",.1f"), 1),
    Column("updates/s", lambda task: tables.optional(task.updates_per_second, ",.1f"), 2),
    Column("replay", _replay, 4),
    Column("staleness", lambda task: tables.optional(task.staleness, ".0f"), 3),
    Column("memory", lambda task: tables.num_bytes(task.memory)),
)
_SERVERS = (
    Column("", lambda task: task.name, left=True),
    Column("at", _doing, left=True),
    Column("version", lambda task: tables.optional(task.version, ",.0f"), 1),
    Column("pushes/s", lambda task: tables.optional(task.pushes_per_second, ",.1f"), 2),
    Column("adds/s", lambda task: tables.optional(task.adds_per_second, ",.0f"), 1),
    Column("samples/s", lambda task: tables.optional(task.samples_per_second, ",.0f"), 1),
    Column("replay", _replay, 2),
    Column("memory", lambda task: tables.num_bytes(task.memory)),
)
