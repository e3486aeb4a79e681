"""Rows of metrics that also go to a service which compares runs: Weights & Biases or MLflow.

It may be slow, or not be reached for a while. So a thread of its own speaks with it, and training
neither waits for it nor ends with it.
"""

import contextlib
import dataclasses
import importlib.util
import os
import pathlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ps_dqn.errors import UsageError
from ps_dqn.state import Counters
from ps_dqn.telemetry.hyperparameters import Hyperparameters
from ps_dqn.telemetry.metrics import known
from ps_dqn.user_code import one_line

# What runs are filed under, where the service's own environment variables do not say.
PROJECT = "ps-dqn"
# From one try to the next while there are no new rows (seconds).
RETRY_SECONDS = 30.0
# For what is on its way at the end, and until people hear that it is waited for (seconds).
LAST_SECONDS, PATIENCE = 30.0, 3.0


@dataclasses.dataclass(frozen=True)
class Tracked:
    """What a service is told of a run before its first row."""

    run_id: str  # the same whenever it is resumed
    folder: pathlib.Path
    hyperparameters: Hyperparameters


class Row(NamedTuple):
    """What was measured at some time."""

    time: float  # seconds since the epoch
    env_steps: int
    values: Mapping[str, float]


class Service(Protocol):
    """Takes the rows of a run; each call may raise whatever its package raises."""

    def write(self, row: Row) -> None:
        """Takes one row."""

    def close(self) -> None:
        """There are no more."""


class _Wandb:
    """A run of Weights & Biases; WANDB_MODE, WANDB_PROJECT and others of its own say where."""

    def __init__(self, tracked: Tracked):
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=tracked.run_id,
            name=tracked.folder.name,
            dir=tracked.folder,
            config=dict(tracked.hyperparameters),
            allow_val_change=True,  # a run may be resumed with others
            resume="allow",
            settings=wandb.Settings(console="off"),
        )
        # Its own steps must grow, and a resumed run measures some again.
        self._run.define_metric("*", step_metric="env_steps")

    def write(self, row: Row) -> None:
        self._run.log(dict(row.values))

    def close(self) -> None:
        self._run.finish()


class _Mlflow:
    """A run of MLflow; MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME say where."""

    TAG = "ps_dqn_run_id"
    AT_ONCE = 100  # parameters, at most

    def __init__(self, tracked: Tracked):
        import mlflow

        self._client, self._metric = mlflow.MlflowClient(), mlflow.entities.Metric
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self._client.get_experiment_by_name(name)
        where = experiment.experiment_id if experiment else self._client.create_experiment(name)
        earlier = self._client.search_runs([where], f"tags.{self.TAG} = '{tracked.run_id}'")
        if earlier:
            self._run_id = earlier[0].info.run_id
            self._client.update_run(self._run_id, status="RUNNING")
            return
        tags = {self.TAG: tracked.run_id}
        made = self._client.create_run(where, tags=tags, run_name=tracked.folder.name)
        self._run_id = made.info.run_id
        parameters = [
            mlflow.entities.Param(name, str(value))
            for name, value in tracked.hyperparameters.items()
            if value != ""
        ]
        for first in range(0, len(parameters), self.AT_ONCE):
            some = parameters[first : first + self.AT_ONCE]
            self._client.log_batch(self._run_id, params=some)

    def write(self, row: Row) -> None:
        milliseconds = int(row.time * 1000)
        self._client.log_batch(
            self._run_id,
            metrics=[
                self._metric(name, value, milliseconds, row.env_steps)
                for name, value in row.values.items()
            ],
        )

    def close(self) -> None:
        self._client.set_terminated(self._run_id)


_SERVICES: Mapping[str, Callable[[Tracked], Service]] = {"wandb": _Wandb, "mlflow": _Mlflow}


def check(track: str) -> None:
    """Refuses a service whose package is missing.

    Raises:
        UsageError: with how to install it.
    """
    if track in _SERVICES and importlib.util.find_spec(track) is None:
        raise UsageError(
            f'--track={track}: needs the package {track}: pip install "ps-dqn[{track}]"'
        )


class Tracking:
    """Sends rows to the service that `--track` names, if it names one."""

    def __init__(
        self,
        track: str,
        folder: pathlib.Path,
        hyperparameters: Hyperparameters,
        say: Callable[[str], None],
    ):
        """Sends nothing yet.

        Args:
            track: the option's value.
            folder: the run's.
            hyperparameters: of the run.
            say: shows people a line; on any thread.
        """
        self._track, self._folder = track, folder
        self._hyperparameters, self._say = hyperparameters, say
        self._rows: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._service: Service | None = None
        self._is_failing = False

    def begin(self, run_id: str) -> None:
        """The run is known; one that connects again goes on."""
        if self._track in _SERVICES and self._thread is None:
            tracked = Tracked(run_id, self._folder, self._hyperparameters)
            self._thread = threading.Thread(
                target=self._run, args=[tracked], name="tracking", daemon=True
            )
            self._thread.start()

    def add(self, counters: Counters, row: Mapping[str, float]) -> None:
        """Takes one row of metrics; NaN is left out."""
        if self._thread is not None:
            values = {**counters._asdict(), **known(row)}
            self._rows.put(Row(time.time(), counters.env_steps, values))

    def close(self) -> None:
        """The run is over; waits a little for what is on its way."""
        if self._thread is None:
            return
        self._rows.put(None)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._say(f"waiting for {self._track} to end, {LAST_SECONDS:g} s at most")
            self._thread.join(LAST_SECONDS)
        if self._thread.is_alive():
            self._say(f"{self._track} has not ended, and is left alone: rows may be missing there")

    def _run(self, tracked: Tracked) -> None:
        waiting: list[Row] = []
        is_over = False
        while True:
            self._try(tracked, waiting, is_over)
            if is_over:
                break
            with contextlib.suppress(queue.Empty):  # then it is time to try again
                row = self._rows.get(timeout=RETRY_SECONDS if self._is_failing else None)
                is_over = row is None
                waiting += [] if row is None else [row]
        if waiting:
            self._say(f"{self._track} has not got the last {len(waiting)} rows of metrics")

    def _try(self, tracked: Tracked, waiting: list[Row], is_over: bool) -> None:
        """Writes what waits; says where that fails, and when it does no more."""
        try:
            if self._service is None:
                self._service = _SERVICES[self._track](tracked)
            while waiting:
                self._service.write(waiting[0])
                del waiting[0]
            if is_over:
                self._service.close()
        except Exception as error:  # whatever its package raises
            if not self._is_failing:
                self._say(
                    f"{self._track} cannot be written ({one_line(error)}): training goes on, and "
                    f"it is tried again"
                )
            self._is_failing = True
            return
        if self._is_failing:
            self._say(f"{self._track} is written again")
        self._is_failing = False
