"""A run that has ended, or that still goes on, as its folder has it."""

import functools
import json
import os
from typing import TYPE_CHECKING, Any

from ps_dqn.api import arguments, measures
from ps_dqn.api.measures import Measures
from ps_dqn.errors import UsageError
from ps_dqn.run import directory

if TYPE_CHECKING:
    import numpy as np

TAIL_LINES = 20


class Run:
    """What a run has left in its folder, read once it is asked for."""

    def __init__(self, run_dir: str | os.PathLike[str]):
        """Looks at the folder of a run.

        Raises:
            UsageError: it is none.
        """
        self.directory = arguments.path(run_dir).absolute()
        if not (self.directory / directory.FLAGFILE).exists():
            raise UsageError(f"run_dir={run_dir}: is not the folder of a run")

    @functools.cached_property
    def metrics(self) -> list[Measures]:
        """The rows of metrics.csv."""
        return measures.read(self.directory)

    def curve(self, name: str) -> "tuple[np.ndarray, np.ndarray]":
        """A column of metrics.csv over environment steps, where it was measured.

        Args:
            name: of the column, like eval/episode_return.

        Returns:
            Environment steps and values, float64 [number of rows] each.

        Raises:
            UsageError: no row has it.
        """
        import numpy as np

        rows = [(row.env_steps, row.by_name[name]) for row in self.metrics if name in row.by_name]
        if not rows:
            measured = sorted({each for row in self.metrics for each in row.by_name})
            raise UsageError(f"{name}: is not measured; there are {', '.join(measured)}")
        env_steps, values = np.array(rows, np.float64).T
        return env_steps, values

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json; empty where the run goes on, or was killed."""
        path = self.directory / directory.SUMMARY
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}

    @property
    def outcome(self) -> str:
        """How it ended: solved, finished or stopped; unfinished where it goes on or was killed."""
        return str(self.summary.get("reason", "unfinished"))

    @property
    def solved(self) -> bool:
        """Whether three evaluations in a row have reached the target return."""
        return self.outcome == "solved"

    @property
    def best(self) -> float | None:
        """The mean return that the best checkpoint was saved for; None where there is none."""
        best = self.summary.get("best_eval_return")
        return None if best is None else float(best)

    @property
    def log(self) -> str:
        """The end of the coordinator's log, which has what is not for everybody to see."""
        path = self.directory / directory.LOGS / "coordinator.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def __repr__(self) -> str:
        return f"<Run {self.directory.name}: {self.outcome}, best evaluation {self.best}>"
