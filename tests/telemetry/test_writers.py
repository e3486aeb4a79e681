"""The files that grow while a run goes on: rows, and events for TensorBoard."""

import contextlib
import csv
import math
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from support.full_disk import FullDisk

from ps_dqn.run import directory
from ps_dqn.state import Counters
from ps_dqn.telemetry import backlog, metrics
from ps_dqn.telemetry.writers import Writers


@pytest.fixture
def run_folder(tmp_path: pathlib.Path) -> pathlib.Path:
    directory.create(tmp_path)
    return tmp_path


@pytest.fixture
def writers(run_folder: pathlib.Path) -> Iterator[Writers]:
    made = Writers(run_folder)
    yield made
    made.close()


def test_rows_are_written_by_a_flush(writers: Writers, run_folder: pathlib.Path) -> None:
    writers.add(Counters(1, 64, 512, 3, 32), {"seconds": 1.25, "train/td_loss": 0.123456789})
    writers.flush()
    [row] = directory.read_metrics(run_folder)
    counters = ["version", "updates", "env_steps", "episodes", "sequential_updates"]
    assert list(row) == [*counters, *metrics.columns()]
    assert [row[name] for name in counters] == ["1", "64", "512", "3", "32"]
    assert row["seconds"] == "1.25"
    assert row["train/td_loss"] == "0.123457"
    assert row["eval/episode_return"] == ""


def test_the_name_of_a_folder_need_be_no_text(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "lat\udcff"
    directory.create(folder)
    with contextlib.closing(Writers(folder)) as writers:
        writers.add(Counters(1, 64, 512, 0, 32), {"train/td_loss": 0.5})
        writers.flush()
    [path] = (folder / directory.TENSORBOARD).iterdir()
    assert path.stat().st_size


def test_nan_is_left_out(writers: Writers, run_folder: pathlib.Path) -> None:
    values = {"train/episode_return": math.nan, "train/td_loss": 0.0}
    writers.add(Counters(1, 64, 512, 0, 32), values)
    writers.flush()
    writers.close()
    [row] = directory.read_metrics(run_folder)
    assert row["train/episode_return"] == ""
    assert row["train/td_loss"] == "0"
    assert scalars(run_folder) == [("train/td_loss", 512, 0.0)]


def events(folder: pathlib.Path) -> list[tuple[str, str, int, np.ndarray]]:
    """What TensorBoard finds: plugin, tag, step and value."""
    [path] = (folder / directory.TENSORBOARD).glob("events.out.tfevents.*")
    found = []
    for record in tf.compat.v1.io.tf_record_iterator(str(path)):
        event = tf.compat.v1.Event.FromString(record)
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            found.append((plugin, value.tag, event.step, tf.make_ndarray(value.tensor)))
    return found


def scalars(folder: pathlib.Path) -> list[tuple[str, int, float]]:
    """The scalars among them: tag, step and value."""
    return [
        (tag, step, float(value))
        for plugin, tag, step, value in events(folder)
        if plugin == "scalars"
    ]


def test_events_have_the_environment_steps(writers: Writers, run_folder: pathlib.Path) -> None:
    writers.add(Counters(1, 64, 512, 3, 32), {"seconds": 1.5, "train/td_loss": 0.25})
    writers.add(Counters(2, 128, 1024, 3, 64), {"eval/episode_return": 30.0})
    writers.flush()
    writers.close()
    assert scalars(run_folder) == [
        ("seconds", 512, 1.5),
        ("train/td_loss", 512, 0.25),
        ("eval/episode_return", 1024, 30.0),
    ]


def test_a_resumed_run_drops_what_it_measures_again(run_folder: pathlib.Path) -> None:
    first = Writers(run_folder)
    for env_steps in (512, 1024, 10240):
        counters = Counters(env_steps // 512, env_steps // 8, env_steps, 1, env_steps // 16)
        first.add(counters, {"seconds": float(env_steps)})
        first.add_workers(counters, {0: {"updates_made": 1.0}, 1: {"updates_made": 2.0}})
    first.flush()
    first.close()
    # The checkpoint was made between the second row and the third.
    second = Writers(run_folder)
    second.resume(Counters(5, 400, 3000, 1, 200))
    second.add(Counters(6, 450, 3500, 2, 225), {"seconds": 7.0})
    second.add_workers(Counters(6, 450, 3500, 2, 225), {0: {"updates_made": 9.0}})
    second.flush()
    second.close()
    rows = directory.read_metrics(run_folder)
    assert [row["env_steps"] for row in rows] == ["512", "1024", "3500"]
    assert [row["seconds"] for row in rows] == ["512", "1024", "7"]
    with (run_folder / directory.METRICS).open(newline="") as file:
        assert [row[0] for row in csv.reader(file)].count("version") == 1, "one header"
    rows = directory.read_table(run_folder / directory.WORKERS)
    assert [(row["env_steps"], row["worker"]) for row in rows] == [
        ("512", "0"), ("512", "1"), ("1024", "0"), ("1024", "1"), ("3500", "0"),
    ]  # fmt: skip


def test_a_half_written_row_does_not_prevent_resuming(run_folder: pathlib.Path) -> None:
    first = Writers(run_folder)
    first.add(Counters(1, 64, 512, 1, 32), {"seconds": 1.0})
    first.flush()
    first.close()
    with (run_folder / directory.METRICS).open("a") as file:
        file.write("2,12")  # the disk was full, or the machine lost its power
    second = Writers(run_folder)
    second.resume(Counters(9, 900, 9000, 1, 450))
    second.flush()
    second.close()
    assert [row["env_steps"] for row in directory.read_metrics(run_folder)] == ["512"]


def test_columns_of_another_version_are_kept_where_they_are_known(
    run_folder: pathlib.Path,
) -> None:
    path = run_folder / directory.METRICS
    path.write_text("version,updates,env_steps,episodes,gone,seconds\r\n1,64,512,3,7,1.5\r\n")
    writers = Writers(run_folder)
    writers.resume(Counters(1, 64, 512, 3, 32))
    writers.add(Counters(2, 128, 1024, 3, 64), {"seconds": 2.5})
    writers.flush()
    writers.close()
    rows = directory.read_metrics(run_folder)
    assert list(rows[0]) == [*Counters._fields, *metrics.columns()]
    assert [(row["env_steps"], row["seconds"]) for row in rows] == [("512", "1.5"), ("1024", "2.5")]


def row_of(env_steps: int) -> Counters:
    return Counters(env_steps // 512, env_steps // 8, env_steps, 1, env_steps // 16)


def test_a_run_that_connects_anew_on_a_full_disk_keeps_its_rows(
    writers: Writers, run_folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for env_steps in (512, 1024, 10240):
        writers.add(row_of(env_steps), {"seconds": float(env_steps)})
    # It was played from a policy of before, and came late.
    writers.add(row_of(900), {"eval/episode_return": 30.0})
    writers.flush()
    before = {each.name for each in run_folder.iterdir()}
    disk = FullDisk(monkeypatch, room=0)
    writers.add(row_of(1536), {"seconds": 1536.0})
    writers.add(row_of(20480), {"seconds": 20480.0})
    with pytest.raises(OSError, match="No space"):
        writers.flush()
    for _ in range(2):
        writers.resume(Counters(5, 400, 3000, 1, 200))
        with pytest.raises(OSError, match="No space"):
            writers.flush()
    assert [row["env_steps"] for row in directory.read_metrics(run_folder)] == ["512", "1024"]
    disk.room = 2**20
    writers.add(row_of(3500), {"seconds": 3500.0})
    writers.flush()
    rows = directory.read_metrics(run_folder)
    assert [row["env_steps"] for row in rows] == ["512", "1024", "900", "1536", "3500"]
    assert {each.name for each in run_folder.iterdir()} == before


def test_events_that_wait_for_long_are_bounded_and_what_is_dropped_is_said(
    run_folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MOST", 3)
    said: list[str] = []
    writers = Writers(run_folder, say=said.append)
    for number in range(1, 11):
        writers.add(row_of(512 * number), {"seconds": float(number)})
    writers.flush()
    writers.flush()
    writers.close()
    assert [seconds for _, _, seconds in scalars(run_folder)] == [8.0, 9.0, 10.0]
    assert said == ["TensorBoard lacks 7 events: those that waited for longest"]
    assert len(directory.read_metrics(run_folder)) == 10


def test_each_worker_has_a_row_and_tags_of_its_own(
    writers: Writers, run_folder: pathlib.Path
) -> None:
    rows = {
        0: dict.fromkeys(metrics.worker_columns(), 1.5) | {"staleness": math.nan},
        3: dict.fromkeys(metrics.worker_columns(), 2.5),
    }
    writers.add_workers(Counters(1, 64, 512, 3, 32), rows)
    writers.flush()
    first, second = directory.read_table(run_folder / directory.WORKERS)
    assert list(first) == [*Counters._fields, "worker", *metrics.worker_columns()]
    assert [first[name] for name in ("env_steps", "worker", "slowness")] == ["512", "0", "1.5"]
    assert first["staleness"] == ""
    assert [second[name] for name in ("env_steps", "worker", "staleness")] == ["512", "3", "2.5"]
    writers.flush()
    writers.close()
    found = scalars(run_folder)
    assert ("worker_0/slowness", 512, 1.5) in found
    assert ("worker_3/staleness", 512, 2.5) in found
    assert len(found) == 2 * len(metrics.worker_columns()) - 1, "NaN is left out"


def test_staleness_is_a_histogram_of_pushes(writers: Writers, run_folder: pathlib.Path) -> None:
    writers.add_staleness(Counters(9, 64, 512, 3, 32), {"0": [4, 0, 5], "1": []})
    writers.flush()
    writers.close()
    (plugin, tag, step, bins), (_, other, _, nothing) = events(run_folder)
    assert (plugin, tag, step) == ("histograms", "worker_0/staleness_histogram", 512)
    # TensorBoard's rows: from, to, how many; each version is in the middle of its bin.
    assert bins.tolist() == [[-0.5, 0.5, 4], [0.5, 1.5, 0], [1.5, 2.5, 5]]
    assert other == "worker_1/staleness_histogram"
    assert nothing[:, 2].sum() == 0


def test_a_film_is_an_image_that_moves(writers: Writers, run_folder: pathlib.Path) -> None:
    gif = b"GIF89a" + bytes([64, 1, 213, 0]) + b"and what follows"
    writers.add_film(512, gif)
    writers.flush()
    [(plugin, tag, step, value)] = events(run_folder)
    assert (plugin, tag, step) == ("images", "film", 512)
    assert value.tolist() == [b"320", b"213", gif]
