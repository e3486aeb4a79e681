"""The files that grow while a run goes on: `metrics.csv`, `workers.csv`, TensorBoard's events."""

import contextlib
import os
import pathlib
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.run import directory
from ps_dqn.state import Counters
from ps_dqn.telemetry import hyperparameters, metrics
from ps_dqn.telemetry.backlog import Backlog
from ps_dqn.telemetry.csv_table import CsvTable
from ps_dqn.telemetry.hyperparameters import Hyperparameters
from ps_dqn.telemetry.tracking import Tracking

_EVENTS = "brain.Event:2"  # the version of TensorBoard's files


class Writers:
    """All of them; what is added is written by `flush`, and waits where that fails."""

    def __init__(
        self,
        path: pathlib.Path,
        tracking: Tracking | None = None,
        say: Callable[[str], None] = print,
    ):
        """Opens them; a run that connects anew goes on with the same, in which rows may wait.

        Args:
            path: the run directory.
            tracking: takes the rows of metrics, too; whoever made it closes it.
            say: shows people a line.
        """
        self._tracking = tracking
        self._metrics = CsvTable(path / directory.METRICS, metrics.columns())
        columns = ("worker", *metrics.worker_columns())
        self._workers = CsvTable(path / directory.WORKERS, columns)
        self._events = _Events(path / directory.TENSORBOARD, say)

    def resume(self, at: Counters) -> None:
        """Drops the rows that the run will measure again, as it goes on here."""
        self._metrics.resume(at.env_steps)
        self._workers.resume(at.env_steps)

    def add(self, counters: Counters, row: dict[str, float]) -> None:
        """Adds one row of metrics; NaN is left out."""
        self._metrics.add(counters, row)
        self._scalars(counters, "", row)
        if self._tracking is not None:
            self._tracking.add(counters, row)

    def add_workers(self, counters: Counters, rows: dict[int, dict[str, float]]) -> None:
        """Adds a row of each worker; NaN is left out."""
        for worker, row in rows.items():
            self._workers.add(counters, {"worker": worker} | row)
            self._scalars(counters, f"worker_{worker}/", row)

    def add_staleness(self, counters: Counters, histograms: dict[str, list[int]]) -> None:
        """Adds each worker's histogram of staleness so far (pushes by versions)."""
        for worker, counts in histograms.items():
            edges = [[age - 0.5, age + 0.5, count] for age, count in enumerate(counts)]
            value = np.array(edges or [[0.0, 1.0, 0.0]], np.float64)
            name = f"worker_{worker}/staleness_histogram"
            self._events.add(counters.env_steps, "histograms", {name: value})

    def add_film(self, env_steps: int, gif: bytes) -> None:
        """Adds a film, which TensorBoard shows among its images.

        Args:
            env_steps: of the run when the policy was as filmed.
            gif: the file.
        """
        # Width and height, as the plugin wants them first: two bytes each, the lower one first.
        sizes = (str(int.from_bytes(gif[at : at + 2], "little")).encode() for at in (6, 8))
        self._events.add(env_steps, "images", {"film": np.array([*sizes, gif], object)})

    def add_hyperparameters(self, values: Hyperparameters) -> None:
        """Adds what the run was told, for TensorBoard's table of runs."""
        session = hyperparameters.as_session(values)
        self._events.add(0, hyperparameters.PLUGIN, {hyperparameters.TAG: np.float32(0)}, session)

    def flush(self) -> None:
        """Writes what was added.

        Raises:
            OSError: some of it waits for the next call.
        """
        errors = []
        for file in (self._metrics, self._workers, self._events):
            try:
                file.flush()
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Closes all files, whatever waits."""
        self._metrics.close()
        self._workers.close()
        self._events.close()

    def _scalars(self, counters: Counters, prefix: str, row: dict[str, float]) -> None:
        known = metrics.known(row)
        scalars = {prefix + name: np.float32(value) for name, value in known.items()}
        self._events.add(counters.env_steps, "scalars", scalars)


class _Events:
    """TensorBoard's events, written as records.

    The ops of tf.summary do the same, but an op of the coordinator may wait for every task of the
    cluster, so for ever where one hangs.
    """

    def __init__(self, folder: pathlib.Path, say: Callable[[str], None]):
        """Begins a file of its own beside those of earlier sessions; `say` tells what it lacks."""
        self._path, self._say = _events_path(folder), say
        self._writer: Any = None
        self._backlog: Backlog[Any] = Backlog()

    def add(self, step: int, plugin: str, values: Mapping[str, Any], content: bytes = b"") -> None:
        """Adds arrays by their tags.

        Args:
            step: what they are of (environment steps).
            plugin: of TensorBoard, that shows them: scalars, histograms, images or hparams.
            values: the arrays, in the plugin's form.
            content: what it is told beside them.
        """
        if not values:
            return
        data = tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
        metadata = tf.compat.v1.SummaryMetadata(plugin_data=data)
        summary = tf.compat.v1.Summary(
            value=[
                tf.compat.v1.Summary.Value(
                    tag=tag, metadata=metadata, tensor=tf.make_tensor_proto(value)
                )
                for tag, value in values.items()
            ]
        )
        self._backlog.add(tf.compat.v1.Event(wall_time=time.time(), step=step, summary=summary))

    def flush(self) -> None:
        """Writes what was added; into a file of its own after what could not be."""
        try:
            if self._writer is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._writer = tf.io.TFRecordWriter(os.fsencode(self._path))
                self._write(tf.compat.v1.Event(wall_time=time.time(), file_version=_EVENTS))
            for event in self._backlog.waiting:
                self._write(event)
            self._writer.flush()
        except tf.errors.OpError as error:
            self.close()
            self._path = _events_path(self._path.parent)
            raise OSError(error.message.rpartition("; ")[2]) from None
        self._backlog.waiting.clear()
        if dropped := self._backlog.take_dropped():
            self._say(f"TensorBoard lacks {dropped} events: those that waited for longest")

    def close(self) -> None:
        writer, self._writer = self._writer, None
        with contextlib.suppress(tf.errors.OpError):
            if writer is not None:
                writer.close()
        with contextlib.suppress(OSError):
            if not self._path.stat().st_size:
                self._path.unlink()

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())


def _events_path(folder: pathlib.Path) -> pathlib.Path:
    """A file that is not there yet, under a name that TensorBoard looks for."""
    now = time.time_ns() // 10**6
    return folder / f"events.out.tfevents.{now}.{socket.gethostname()}.v2"
