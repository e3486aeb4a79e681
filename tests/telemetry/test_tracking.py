"""Rows that go to Weights & Biases or MLflow, of this machine, and services that fail."""

import pathlib
import struct
import threading
from collections.abc import Iterator

import pytest
from support import seen_by
from support.processes import until

from ps_dqn.errors import UsageError
from ps_dqn.run import directory
from ps_dqn.state import Counters
from ps_dqn.telemetry import backlog, tracking
from ps_dqn.telemetry.tracking import Row, Tracked, Tracking
from ps_dqn.telemetry.writers import Writers

VALUES = {"gamma": 0.98, "env_id": "CartPole-v1", "noisy": True, "env_wrappers": ""}


def counters(env_steps: int) -> Counters:
    return Counters(env_steps // 64, env_steps // 8, env_steps, 1, env_steps // 8)


class Flaky:
    """A service that can be made to fail, or to stand still."""

    def __init__(self) -> None:
        self.tracked: Tracked | None = None
        self.rows: list[Row] = []
        self.fails = self.is_closed = False
        self.goes_on = threading.Event()
        self.goes_on.set()

    def open(self, tracked: Tracked) -> "Flaky":
        self._answer()
        self.tracked = tracked
        return self

    def write(self, row: Row) -> None:
        self._answer()
        self.rows.append(row)

    def close(self) -> None:
        self.is_closed = True

    def _answer(self) -> None:
        self.goes_on.wait()
        if self.fails:
            raise ConnectionError("nobody\nthere")


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> Iterator[Flaky]:
    service = Flaky()
    monkeypatch.setattr(tracking, "PATIENCE", 120.0)  # a slow machine is not what people are told
    monkeypatch.setitem(tracking._SERVICES, "flaky", service.open)
    yield service
    service.goes_on.set()


def test_a_failing_service_is_said_once_and_gets_everything_later(
    flaky: Flaky, tmp_path: pathlib.Path
) -> None:
    said: list[str] = []
    flaky.fails = True
    tracked = Tracking("flaky", tmp_path, VALUES, said.append)
    tracked.begin("a1b2")
    tracked.begin("a1b2")  # as a run that connects anew does
    for env_steps in (640, 1280):
        tracked.add(counters(env_steps), {"seconds": 1.0, "train/td_loss": float("nan")})
    until(lambda: said, 60, "the failure to be said")
    flaky.fails = False
    tracked.add(counters(1920), {"seconds": 3.0})
    tracked.close(lambda: True)
    assert said == [
        "flaky cannot be written (ConnectionError: nobody there): training goes on, and it is "
        "tried again",
        "flaky is written again",
    ]
    assert flaky.tracked == Tracked("a1b2", tmp_path, VALUES)
    assert [row.env_steps for row in flaky.rows] == [640, 1280, 1920]
    assert flaky.rows[0].values == {**counters(640)._asdict(), "seconds": 1.0}
    assert flaky.is_closed


def test_a_service_that_is_gone_at_the_end_is_said(flaky: Flaky, tmp_path: pathlib.Path) -> None:
    said: list[str] = []
    flaky.fails = True
    tracked = Tracking("flaky", tmp_path, VALUES, said.append)
    tracked.begin("a1b2")
    tracked.add(counters(640), {"seconds": 1.0})
    tracked.close(lambda: True)
    assert len(said) == 2
    assert said[1] == "flaky has not got the last 1 rows of metrics"


@pytest.mark.parametrize("stands_still", [False, True])
def test_rows_that_wait_for_long_are_bounded_and_what_is_dropped_is_said(
    flaky: Flaky, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, stands_still: bool
) -> None:
    monkeypatch.setattr(backlog, "MOST", 3)
    said: list[str] = []
    if stands_still:
        flaky.goes_on.clear()
    else:
        flaky.fails = True
    tracked = Tracking("flaky", tmp_path, VALUES, said.append)
    tracked.begin("a1b2")
    for number in range(1, 11):
        tracked.add(counters(640 * number), {"seconds": float(number)})
    if not stands_still:
        until(lambda: said, 60, "the failure to be said")
    flaky.fails = False
    flaky.goes_on.set()
    tracked.close(lambda: True)
    assert [row.values["seconds"] for row in flaky.rows] == [8.0, 9.0, 10.0]
    assert said[-1] == "flaky lacks 7 rows of metrics, which metrics.csv has"


def test_rows_that_were_dropped_count_at_the_end(
    flaky: Flaky, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MOST", 3)
    said: list[str] = []
    flaky.fails = True
    tracked = Tracking("flaky", tmp_path, VALUES, said.append)
    tracked.begin("a1b2")
    for number in range(10):
        tracked.add(counters(640 * number), {"seconds": 1.0})
    tracked.close(lambda: True)
    assert said[1:] == ["flaky has not got the last 10 rows of metrics"]


def test_nobody_waits_for_a_service_that_stands_still(
    flaky: Flaky, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "LAST_SECONDS", 0.25)
    monkeypatch.setattr(tracking, "PATIENCE", 0.1)
    said: list[str] = []
    flaky.goes_on.clear()
    tracked = Tracking("flaky", tmp_path, VALUES, said.append)
    tracked.begin("a1b2")
    tracked.add(counters(640), {"seconds": 1.0})
    tracked.close(lambda: True)
    assert said == [
        "waiting for flaky to end, 0.25 s at most",
        "flaky has not ended, and is left alone: rows may be missing there",
    ]


@pytest.mark.parametrize("has_time", [[False], [True, True, False]], ids=["before", "meanwhile"])
def test_a_signal_ends_the_wait_for_one(
    flaky: Flaky, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, has_time: list[bool]
) -> None:
    monkeypatch.setattr(tracking, "LAST_SECONDS", 600.0)
    monkeypatch.setattr(tracking, "PATIENCE", 0.1)
    said, asked = list[str](), iter(has_time)
    flaky.goes_on.clear()
    tracked = Tracking("flaky", tmp_path, VALUES, said.append)
    tracked.begin("a1b2")
    tracked.close(lambda: next(asked))
    assert "flaky has not ended" in said[-1]
    assert len(said) == 1 + has_time[0]


def test_nothing_is_tracked_unless_it_is_said(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = seen_by.threads(monkeypatch, tracking)
    tracked = Tracking("none", tmp_path, VALUES, lambda line: pytest.fail(line))
    tracked.begin("a1b2")
    tracked.add(counters(640), {"seconds": 1.0})
    tracked.close(lambda: True)
    assert started == []


def test_a_missing_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tracking.check("none")
    tracking.check("wandb")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    says = r'--track=mlflow: needs the package mlflow: pip install "ps-dqn\[mlflow\]"'
    with pytest.raises(UsageError, match=says):
        tracking.check("mlflow")


def write_rows(track: str, folder: pathlib.Path, *env_steps: int) -> list[str]:
    """A session of a run, by the way its rows take; what is said of it."""
    said: list[str] = []
    directory.create(folder)
    tracked = Tracking(track, folder, VALUES, said.append)
    tracked.begin("a1b2c3d4")
    writers = Writers(folder, tracked)
    writers.resume(counters(env_steps[0]))
    for each in env_steps:
        writers.add(counters(each), {"seconds": each / 100, "train/td_loss": float("nan")})
    writers.flush()
    writers.close()
    tracked.close(lambda: True)
    return said


@pytest.mark.filterwarnings("ignore")  # of its packages
@pytest.mark.slow
def test_mlflow_has_the_rows_of_a_run_that_was_resumed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setattr(tracking, "PATIENCE", 600.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert write_rows("mlflow", tmp_path / "cartpole-3", 640, 1280) == []
    assert write_rows("mlflow", tmp_path / "cartpole-3", 1920) == []
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name(tracking.PROJECT)
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "cartpole-3"
    assert run.info.status == "FINISHED"
    assert run.data.params == {"gamma": "0.98", "env_id": "CartPole-v1", "noisy": "True"}
    history = client.get_metric_history(run.info.run_id, "seconds")
    assert [(each.step, each.value) for each in history] == [(640, 6.4), (1280, 12.8), (1920, 19.2)]
    assert set(run.data.metrics) == {"seconds", *Counters._fields}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of its packages
def test_mlflow_gets_hyperparameters_that_it_could_not_take_at_first(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr(tracking._Mlflow, "AT_ONCE", 2)
    take, calls = mlflow.MlflowClient.log_batch, []

    def take_some(client: mlflow.MlflowClient, *args: object, **named: object) -> object:
        calls.append(named)
        if len(calls) == 2:
            raise ConnectionError
        return take(client, *args, **named)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", take_some)
    tracked = Tracked("a1b2c3d4", tmp_path / "cartpole-3", VALUES)
    with pytest.raises(ConnectionError):
        tracking._Mlflow(tracked)
    tracking._Mlflow(tracked).close()
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name(tracking.PROJECT)
    [run] = client.search_runs([experiment.experiment_id])
    assert run.data.params == {"gamma": "0.98", "env_id": "CartPole-v1", "noisy": "True"}


def wandb_records(content: bytes) -> Iterator[bytes]:
    """The records in a file of Weights & Biases: LevelDB's log, in blocks, after seven bytes."""
    block, head, at, record = 2**15, 7, 7, b""
    while at + head < len(content):
        if block - at % block < head:
            at += block - at % block
        length, kind = struct.unpack_from("<HB", content, at + 4)  # after the checksum
        record += content[at + head : at + head + length]
        at += head + length
        if kind in (1, 4):  # whole, or the last of several parts
            yield record
            record = b""


@pytest.mark.filterwarnings("ignore")  # of its package
@pytest.mark.slow
def test_wandb_has_the_rows_without_a_network(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setattr(tracking, "PATIENCE", 600.0)
    monkeypatch.setenv("WANDB_MODE", "offline")
    for limit in ("_SERVICE_WAIT", "INIT_TIMEOUT"):  # its own process may take its time to start
        monkeypatch.setenv(f"WANDB_{limit}", "300")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert write_rows("wandb", tmp_path / "cartpole-3", 640, 1280) == []
    [path] = tmp_path.glob("cartpole-3/wandb/offline-run-*/run-a1b2c3d4.wandb")
    records = [Record.FromString(data) for data in wandb_records(path.read_bytes())]
    [run] = [record.run for record in records if record.WhichOneof("record_type") == "run"][-1:]
    assert (run.project, run.run_id, run.display_name) == ("ps-dqn", "a1b2c3d4", "cartpole-3")
    told = {each.key: each.value_json for each in run.config.update}
    assert (told["gamma"], told["env_id"], told["noisy"]) == ("0.98", '"CartPole-v1"', "true")
    rows = [
        {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    assert [(row["env_steps"], row["seconds"]) for row in rows] == [
        ("640", "6.4"),
        ("1280", "12.8"),
    ]
    assert "train/td_loss" not in rows[0]
