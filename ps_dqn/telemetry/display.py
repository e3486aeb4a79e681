"""What a person sees while a run goes on: a live display, or plain lines."""

import dataclasses
import math
import time
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ps_dqn.state import Counters


@dataclasses.dataclass(frozen=True)
class Status:
    """One moment of a run."""

    seconds: float
    counters: Counters
    total_env_steps: int
    episode_return: float
    eval_return: float
    best_return: float
    target_return: float
    epsilon: float
    staleness: float  # versions
    env_steps_per_second: float
    updates_per_second: float
    workers_alive: int
    num_workers: int


class Display(Protocol):
    """Shows statuses and says lines."""

    interval: float  # seconds a status speaks for

    def show(self, status: Status) -> None:
        """A new status; may be left out if the last one is recent."""

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

    def show(self, status: Status) -> None:
        """See `Display.show`."""
        now = time.perf_counter()
        if now - self._last < self.interval:
            return
        self._last = now
        counters = status.counters
        self.say(
            f"{status.seconds:7.1f} s  env_steps {counters.env_steps:>10,}  "
            f"updates {counters.updates:>9,}  return {_number(status.episode_return)}  "
            f"eval {_number(status.eval_return)}  epsilon {status.epsilon:.3f}  "
            f"{status.env_steps_per_second:,.0f} env steps/s  "
            f"{status.updates_per_second:,.0f} updates/s  staleness {_number(status.staleness)}  "
            f"workers {status.workers_alive}/{status.num_workers}"
        )

    def say(self, line: str) -> None:
        """See `Display.say`."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Nothing to leave."""


class LiveDisplay:
    """A display that is drawn over itself."""

    interval = 1.0

    def __init__(self, console: Console):
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def show(self, status: Status) -> None:
        """See `Display.show`."""
        self._live.update(_panel(status))

    def say(self, line: str) -> None:
        """See `Display.say`."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """See `Display.close`."""
        self._live.stop()


def make(console: Console, log_interval: float) -> Display:
    """The display that fits the output."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console, log_interval)


def _panel(status: Status) -> Group:
    counters = status.counters
    done = min(counters.env_steps, status.total_env_steps)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        Text(f"{counters.env_steps:,} of {status.total_env_steps:,} env steps"),
        ProgressBar(total=status.total_env_steps, completed=done, width=40),
        Text(f"{status.seconds:.0f} s"),
    )
    table = Table.grid(padding=(0, 3))
    table.add_row(
        _cell("return", _number(status.episode_return)),
        _cell("evaluation", _number(status.eval_return)),
        _cell("best", _number(status.best_return)),
        _cell("target", _number(status.target_return)),
        _cell("epsilon", f"{status.epsilon:.3f}"),
    )
    table.add_row(
        _cell("env steps/s", f"{status.env_steps_per_second:,.0f}"),
        _cell("updates/s", f"{status.updates_per_second:,.0f}"),
        _cell("updates", f"{counters.updates:,}"),
        _cell("staleness", _number(status.staleness)),
        _cell("workers", f"{status.workers_alive}/{status.num_workers}"),
    )
    return Group(bar, table)


def _cell(name: str, value: str) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold"))


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "none" if math.isinf(value) else f"{value:.1f}"
