"""What a person sees of a sweep: a line for each run every few seconds."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ps_dqn.run import terminal
from ps_dqn.sweep.trial import Running


class Board:
    """Lines of runs: drawn over themselves on a terminal, else one after the other."""

    def __init__(self, console: Console, interval: float):
        """Shows nothing yet.

        Args:
            console: where to.
            interval: from one look to the next where lines stay (seconds).
        """
        self._console, self._interval = console, interval
        self._shown = time.monotonic()
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, refresh_per_second=2, transient=True)
            self._live.start()
            console.show_cursor()  # as in a run's display

    def say(self, line: str) -> None:
        """A line that stays."""
        terminal.say(self._console, line)

    def show(self, running: Sequence[Running], over: int, total: int) -> None:
        """What each run is at.

        Args:
            running: those that run.
            over: how many have ended, or failed.
            total: how many there are to be.
        """
        now = time.monotonic()
        if self._live is None and now - self._shown < self._interval:
            return
        self._shown = now
        lines = [(each.trial.label, _at(each)) for each in running]
        if self._live is None:
            for label, line in lines:
                self.say(f"[{over}/{total}] {label}: {line}")
            return
        table = Table.grid(padding=(0, 2))
        for label, line in lines:
            table.add_row(label, line)
        table.add_row(f"{over} of {total} runs are over", "")
        self._live.update(table)

    def close(self) -> None:
        """Leaves the screen to others."""
        if self._live is not None:
            self._live.stop()


def _at(running: Running) -> str:
    """What a run is at, as its coordinator said last."""
    line = running.trial.last_line()
    return "starting" if not line or line.startswith("run directory") else line
