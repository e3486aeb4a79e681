"""The files that grow while a run goes on: `metrics.csv` and TensorBoard's events."""

import csv
import math
import pathlib

import tensorflow as tf

from ps_dqn import run_directory
from ps_dqn.metrics import COLUMNS
from ps_dqn.state import Counters


class Writers:
    """`metrics.csv` and TensorBoard's event files."""

    def __init__(self, path: pathlib.Path, resumed_at: Counters):
        """Opens both; rows that a resumed run will measure again are dropped."""
        self._path = path / run_directory.METRICS
        columns = [*Counters._fields, *COLUMNS]
        rows = run_directory.read_metrics(path)
        kept = [row for row in rows if _is_whole(row) and _env_steps(row) <= resumed_at.env_steps]
        temporary = self._path.with_suffix(".tmp")
        with temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(kept)
        temporary.replace(self._path)
        self._file = self._path.open("a", newline="")
        self._csv = csv.DictWriter(self._file, columns, restval="")
        self._events = tf.summary.create_file_writer(str(path / run_directory.TENSORBOARD))

    def write(self, counters: Counters, row: dict[str, float]) -> None:
        """Adds one row; NaN is left out."""
        measured = {name: value for name, value in row.items() if not math.isnan(value)}
        shown = {name: f"{value:.6g}" for name, value in measured.items()}
        self._csv.writerow(counters._asdict() | shown)
        self._file.flush()
        with self._events.as_default(step=counters.env_steps):
            for name, value in measured.items():
                # What tf.summary.scalar writes; that function needs the tensorboard package.
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=_SCALAR)

    def close(self) -> None:
        """Closes both files."""
        self._file.close()
        self._events.close()


_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
)


def _is_whole(row: dict[str, str]) -> bool:
    """Whether a row was written to its end: a killed run may leave half of one."""
    return all(value is not None for value in row.values()) and row["env_steps"].isdigit()


def _env_steps(row: dict[str, str]) -> int:
    return int(row["env_steps"])
