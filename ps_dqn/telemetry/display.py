"""What a person sees while a run goes on: a live display, or plain lines."""

import math
import time
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ps_dqn.run import terminal
from ps_dqn.telemetry import metrics
from ps_dqn.telemetry.figures import RunFigures


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
        counters, recent = figures.counters, figures.recent
        self.say(
            f"{figures.seconds:7.1f} s  env_steps {counters.env_steps:>10,}  "
            f"updates {counters.updates:>9,}  "
            f"return {_number(recent['train/episode_return'])}  "
            f"eval {_number(figures.eval_return)}  epsilon {recent['train/epsilon']:.3f}  "
            f"{recent['rate/env_steps_per_second']:,.0f} env steps/s  "
            f"{recent['rate/updates_per_second']:,.0f} updates/s  "
            f"staleness {_number(recent['train/staleness'])}  workers {_workers(figures)}"
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

    def show(self, figures: RunFigures) -> None:
        """Draws the panel anew."""
        self._live.update(_panel(figures))

    def say(self, line: str) -> None:
        """Prints it."""
        terminal.say(self._console, line)

    def close(self) -> None:
        """Wipes the panel away."""
        self._live.stop()


def make(console: Console, log_interval: float) -> Display:
    """The display that fits the output."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console, log_interval)


def _panel(figures: RunFigures) -> Group:
    counters, goal = figures.counters, figures.env_steps_goal
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        Text(f"{counters.env_steps:,} of {goal:,} env steps"),
        ProgressBar(total=goal, completed=min(counters.env_steps, goal), width=40),
        Text(f"{figures.seconds:.0f} s"),
    )
    cells = [
        _cell("evaluation", _number(figures.eval_return)),
        _cell("best", _number(figures.best_return)),
        _cell("target", _number(figures.target_return)),
        _cell("updates", f"{counters.updates:,}"),
        _cell("workers", _workers(figures)),
    ]
    cells += [
        _cell(metric.display, _number(figures.recent[metric.name], metric.form))
        for metric in metrics.METRICS
        if metric.display
    ]
    table = Table.grid(padding=(0, 3))
    for first in range(0, len(cells), 5):
        table.add_row(*cells[first : first + 5])
    return Group(bar, table)


def _workers(figures: RunFigures) -> str:
    return f"{figures.workers_reporting}/{figures.workers}"


def _cell(name: str, value: str) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold"))


def _number(value: float, form: str = ".1f") -> str:
    if math.isnan(value):
        return "-"
    return "none" if math.isinf(value) else format(value, form)
