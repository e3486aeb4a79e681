"""Whoever watches a run: its files, the person before it, and the health server."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ps_dqn.run.disk import Disk
from ps_dqn.state import Counters
from ps_dqn.telemetry import ledger
from ps_dqn.telemetry.display import Display
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.progress import Progress
from ps_dqn.telemetry.replay_rates import ReplayRates
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.telemetry.writers import Writers

# Where no worker has reported for so long, people are told that it goes on all the same (seconds).
QUIET_SECONDS = 15.0


class Observer:
    """Hears from a run's loop and tells all of them."""

    def __init__(self, vitals: Vitals, display: Display, writers: Writers, disk: Disk):
        """Shows nothing yet.

        Args:
            vitals: for the health server.
            display: for people, of this connection.
            writers: the run's files, which others may go on with.
            disk: knows which of them cannot be written.
        """
        self._vitals, self._display, self._writers = vitals, display, writers
        self.disk, self._rates = disk, ReplayRates()
        # What the figures call "the last moments" (seconds).
        self.moments = max(1.0, display.interval)
        self._heard, self._quiet = time.monotonic(), QUIET_SECONDS

    def begin(self, replay_servers: Sequence[dict[str, Any]], now: float) -> None:
        """A connection begins.

        Args:
            replay_servers: their ledgers, which may have begun before it.
            now: seconds of training.
        """
        self._rates.begin(replay_servers, now)

    def show(self, figures: RunFigures) -> None:
        """Shows the run as it is now."""
        self._vitals.show(figures)
        now = time.monotonic()
        if figures.is_news:
            self._heard, self._quiet = now, QUIET_SECONDS
            self._display.show(figures)
        elif now - self._heard > self._quiet:
            self._quiet *= 2
            seconds = now - self._heard
            self.say(f"no worker has reported for {seconds:.0f} s: what they are at takes longer")

    def say(self, line: str) -> None:
        """Says a line to people."""
        self._display.say(line)

    def saved(self) -> None:
        """There is a checkpoint, or one from which training begins."""
        self._vitals.saved()

    def trained(
        self,
        progress: Progress,
        servers: list[dict[str, Any]],
        now: float,
        replay_servers: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Writes the rows of an interval of training, and its histograms.

        Args:
            progress: with the interval.
            servers: the ledger of each parameter server.
            now: the interval's end (seconds of training).
            replay_servers: likewise, of each replay server.
        """
        row = progress.train_row(now, ledger.balance(servers))
        row |= self._rates.row(replay_servers, now)
        self._writers.add(progress.counters, row)
        self._writers.add_workers(progress.counters, progress.interval.ledger.rows())
        if servers:
            self._writers.add_staleness(progress.counters, servers[0]["staleness"])
        self._flush()

    def evaluated(self, counters: Counters, row: Mapping[str, float]) -> None:
        """Writes the row of an evaluation."""
        self._writers.add(counters, dict(row))
        self._flush()

    def close(self) -> None:
        """The connection has ended, well or not."""
        self._vitals.enter("ended")
        self._display.close()
        self._flush()

    def _flush(self) -> None:
        self.disk.write("metrics", self._writers.flush)
