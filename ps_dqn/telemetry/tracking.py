"""Rows of metrics that also go to a service which compares runs: Weights & Biases or MLflow.

It may be slow, or not be reached for a while. So a thread of its own speaks with it, and training
neither waits for it nor ends with it.
"""

import dataclasses
import functools
import importlib.util
import os
import pathlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ps_dqn.errors import UsageError
from ps_dqn.run.directory import METRICS
from ps_dqn.state import Counters
from ps_dqn.telemetry.backlog import Backlog
from ps_dqn.telemetry.hyperparameters import Hyperparameters
from ps_dqn.telemetry.metrics import known
from ps_dqn.user_code import one_line

# What runs are filed under, where the service's own environment variables do not say.
PROJECT = "ps-dqn"
# From one try to the next while there are no new rows (seconds).
RETRY_SECONDS = 30.0
# For what is on its way at the end, and until people hear that it is waited for (seconds). A run
# that is told to end waits for no more than the second of these.
LAST_SECONDS, PATIENCE = 30.0, 3.0
_POLL_SECONDS = 0.1


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

        self._end_service = wandb.teardown
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
        self._end_service()  # which writes the last of its file when it ends, and not before


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
            [run, *_] = earlier
            self._client.update_run(run.info.run_id, status="RUNNING")
        else:
            tags = {self.TAG: tracked.run_id}
            run = self._client.create_run(where, tags=tags, run_name=tracked.folder.name)
        self._run_id = run.info.run_id
        # Those that it has cannot be changed; others may have been lost on their way.
        parameters = [
            mlflow.entities.Param(name, str(value))
            for name, value in tracked.hyperparameters.items()
            if value != "" and name not in run.data.params
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
        self._changed = threading.Condition()  # guards what follows
        self._rows: Backlog[Row] = Backlog()
        self._added, self._is_over = 0, False
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
            with self._changed:
                self._rows.add(Row(time.time(), counters.env_steps, values))
                self._added += 1
                self._changed.notify()

    def close(self, has_time: Callable[[], bool]) -> None:
        """The run is over; waits a little for what is on its way, as long as it has time longer."""
        if self._thread is None:
            return
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join(PATIENCE)
        deadline = time.monotonic() + LAST_SECONDS
        if self._thread.is_alive() and has_time():
            self._say(f"waiting for {self._track} to end, {LAST_SECONDS:g} s at most")
            while self._thread.is_alive() and has_time() and time.monotonic() < deadline:
                self._thread.join(_POLL_SECONDS)
        if self._thread.is_alive():
            self._say(f"{self._track} has not ended, and is left alone: rows may be missing there")

    def _run(self, tracked: Tracked) -> None:
        is_over = False
        while not is_over:
            with self._changed:
                is_over, known = self._is_over, self._added
            self._try(tracked, is_over)
            with self._changed:
                limit = RETRY_SECONDS if self._is_failing else None
                self._changed.wait_for(functools.partial(self._has_changed, known), limit)
        if missing := len(self._rows.waiting) + self._rows.take_dropped():
            self._say(f"{self._track} has not got the last {missing} rows of metrics")

    def _try(self, tracked: Tracked, is_over: bool) -> None:
        """Writes what waits; says where that fails, and when it does no more."""
        try:
            if self._service is None:
                self._service = _SERVICES[self._track](tracked)
            while (row := self._oldest()) is not None:
                self._service.write(row)
                self._written(row)
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
        with self._changed:
            dropped = self._rows.take_dropped()
        if dropped:
            self._say(f"{self._track} lacks {dropped} rows of metrics, which {METRICS} has")

    def _has_changed(self, known: int) -> bool:
        return self._is_over or self._added > known

    def _oldest(self) -> Row | None:
        with self._changed:
            return self._rows.waiting[0] if self._rows.waiting else None

    def _written(self, row: Row) -> None:
        with self._changed:
            if self._rows.waiting[0] is row:  # else it has given way meanwhile
                self._rows.waiting.popleft()
