"""What an evaluator that follows a run has found, in the run's folder."""

import contextlib
import pathlib
from collections.abc import Callable

from ps_dqn.evaluator.checkpoint_player import COLUMNS, Score
from ps_dqn.run import directory
from ps_dqn.run.disk import Disk
from ps_dqn.telemetry.csv_table import CsvTable

_WHAT = "evaluations"


class ScoreTable:
    """A row of each checkpoint that was played; those that cannot be written wait.

    It is opened for each row: where a run begins anew, its coordinator moves the file away.
    """

    def __init__(self, folder: pathlib.Path, say: Callable[[str], None]):
        """Writes nothing yet.

        Args:
            folder: of the run.
            say: shows people a line.
        """
        self._path, self._disk = folder / directory.EVALUATIONS, Disk(say)
        self._waiting: list[Score] = []

    def played(self) -> int:
        """Updates of the last checkpoint in it, -1 where there is none; drops halves of rows."""
        if self._path.exists():
            self._disk.write(_WHAT, self._write)
        numbers = [row.get("updates") or "" for row in directory.read_table(self._path)]
        return next((int(number) for number in reversed(numbers) if number.isdigit()), -1)

    def add(self, score: Score) -> None:
        """Writes a row after those that wait."""
        self._waiting.append(score)
        self._disk.write(_WHAT, self._write)

    def begin_anew(self) -> None:
        """Another run has begun in the folder: what waits is of the one before."""
        self._waiting.clear()

    def close(self) -> str:
        """Writes what waits, in several tries; why that did not work, or no text."""
        return self._disk.write_last(_WHAT, self._write) if self._waiting else ""

    def _write(self) -> None:
        with contextlib.closing(CsvTable(self._path, COLUMNS)) as table:
            table.resume()
            for score in self._waiting:
                table.add(score.checkpoint.state.counters, score.as_row())
            table.flush()
        self._waiting.clear()
