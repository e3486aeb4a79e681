"""A CSV file of a run that grows row by row, and has no half of one."""

import csv
import io
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ps_dqn.run import directory
from ps_dqn.run.disk import Appended
from ps_dqn.state import Counters
from ps_dqn.telemetry import metrics


class CsvTable:
    """A CSV file that grows: the counters, then other columns."""

    def __init__(self, path: pathlib.Path, columns: Sequence[str]):
        """Opens it; where its columns are another version's, those that are known are kept."""
        self._names = [*Counters._fields, *columns]
        self._header = self._line(dict(zip(self._names, self._names, strict=True)))
        if path.exists():
            with path.open("rb") as file:
                first = file.read(len(self._header))
            if first not in (b"", self._header):
                self._translate(path)
        self._file = Appended(path)
        if self._file.is_empty:
            self._file.add(self._header)

    def resume(self, env_steps: float = math.inf) -> None:
        """Keeps the rows up to there, and none that a killed process has left half of."""
        where = self._names.index("env_steps")

        def is_kept(line: bytes) -> bool:
            fields = line.split(b",")
            is_whole = line.endswith(b"\n") and len(fields) == len(self._names)
            is_row = is_whole and fields[where].isdigit()
            return line == self._header or (is_row and int(fields[where]) <= env_steps)

        self._file.keep(is_kept)

    def add(self, counters: Counters, row: Mapping[str, float]) -> None:
        """Adds a row for the next `flush`; NaN is left out."""
        shown = {name: f"{value:.6g}" for name, value in metrics.known(row).items()}
        self._file.add(self._line(counters._asdict() | shown))

    def flush(self) -> None:
        """Writes what was added.

        Raises:
            OSError: all of it waits for the next call.
        """
        self._file.flush()

    def close(self) -> None:
        """Closes the file, whatever waits."""
        self._file.close()

    def _line(self, row: Mapping[str, Any]) -> bytes:
        text = io.StringIO()
        csv.DictWriter(text, self._names, restval="", extrasaction="ignore").writerow(row)
        return text.getvalue().encode()

    def _translate(self, path: pathlib.Path) -> None:
        temporary = path.with_suffix(".tmp")
        rows = [row for row in directory.read_table(path) if None not in (*row, *row.values())]
        try:
            temporary.write_bytes(b"".join([self._header, *map(self._line, rows)]))
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
