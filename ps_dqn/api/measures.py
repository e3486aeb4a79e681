"""The rows of a run's metrics as Python has them, and as they come."""

import csv
import dataclasses
import itertools
import pathlib
from collections.abc import Mapping

from ps_dqn.run import directory


@dataclasses.dataclass(frozen=True)
class Measures:
    """One row of a run's metrics: of an interval of training, or of an evaluation.

    Attributes:
        env_steps: environment steps of all workers so far.
        updates: minibatch gradients so far.
        episodes: that have ended so far.
        seconds: of training so far, earlier sessions included.
        eval_return: mean return of the evaluation; None: the row is of training.
        train_return: mean return of episodes that ended in the interval; None: none has.
        by_name: all that is measured, by the columns of metrics.csv; what is not is left out.
    """

    env_steps: int
    updates: int
    episodes: int
    seconds: float
    eval_return: float | None
    train_return: float | None
    by_name: Mapping[str, float] = dataclasses.field(repr=False)

    @classmethod
    def of_row(cls, row: Mapping[str, str]) -> "Measures":
        """What a row of metrics.csv says."""
        known = {name: float(value) for name, value in row.items() if value}
        return cls(
            env_steps=int(row["env_steps"]),
            updates=int(row["updates"]),
            episodes=int(row["episodes"]),
            seconds=known["seconds"],
            eval_return=known.get("eval/episode_return"),
            train_return=known.get("train/episode_return"),
            by_name=known,
        )


def read(run_dir: pathlib.Path) -> list[Measures]:
    """All rows of a run."""
    return Follower(run_dir).all


class Follower:
    """Reads the rows of a run while they are written.

    A run that is resumed, or that connects anew, cuts off the rows that it will measure again, and
    one of another version begins the file anew.
    """

    def __init__(self, run_dir: pathlib.Path):
        """Knows the rows that are there."""
        self._path = run_dir / directory.METRICS
        self._size, self._last = 0, b""  # of what was read: bytes, and its last line
        self._header: list[str] = []
        self.all: list[Measures] = []
        self.new()

    def new(self) -> list[Measures]:
        """The rows that have come since the last call."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return []
        with file:
            before = self.all
            file.seek(self._size - len(self._last))
            if file.read(len(self._last)) != self._last:
                self._size, self._last, self._header, self.all = 0, b"", [], []
                file.seek(0)
            rows = self._rows(file.read())
        if self.all or not rows:
            self.all.extend(rows)
            return rows
        self.all = rows
        pairs = zip(before, rows, strict=False)
        known = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        return rows[known:]

    def _rows(self, piece: bytes) -> list[Measures]:
        """Those that were written to their ends."""
        whole = piece[: piece.rfind(b"\n") + 1]
        self._size += len(whole)
        self._last = (whole.splitlines(keepends=True) or [self._last])[-1]
        lines = list(csv.reader(whole.decode().splitlines()))
        if lines and not self._header:
            self._header, *lines = lines
        return [Measures.of_row(dict(zip(self._header, line, strict=True))) for line in lines]
