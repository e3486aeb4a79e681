"""What a run measures and leaves to read: rows, events, the summary and the tables at its end."""

import csv
import io
import json
import math
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from ps_dqn.config import Config
from ps_dqn.coordinator.loop import Result
from ps_dqn.coordinator.summary import MOST_WORKERS, show, summarize
from ps_dqn.run import directory
from ps_dqn.state import Counters
from ps_dqn.telemetry import metrics
from ps_dqn.telemetry.ledger import WORKER_COLUMNS, WorkerLedger
from ps_dqn.telemetry.writers import Writers
from ps_dqn.wire.report import PHASES, Report


@pytest.fixture
def run_folder(tmp_path: pathlib.Path) -> pathlib.Path:
    directory.create(tmp_path)
    return tmp_path


@pytest.fixture
def writers(run_folder: pathlib.Path) -> Iterator[Writers]:
    made = Writers(run_folder, Counters(0, 0, 0, 0))
    yield made
    made.close()


def test_rows_are_written_at_once(writers: Writers, run_folder: pathlib.Path) -> None:
    writers.write(Counters(1, 64, 512, 3), {"seconds": 1.25, "train/td_loss": 0.123456789})
    [row] = directory.read_metrics(run_folder)
    assert list(row) == ["version", "updates", "env_steps", "episodes", *metrics.COLUMNS]
    assert [row[name] for name in Counters._fields] == ["1", "64", "512", "3"]
    assert row["seconds"] == "1.25"
    assert row["train/td_loss"] == "0.123457"
    assert row["eval/episode_return"] == ""


def test_nan_is_left_out(writers: Writers, run_folder: pathlib.Path) -> None:
    values = {"train/episode_return": math.nan, "train/td_loss": 0.0}
    writers.write(Counters(1, 64, 512, 0), values)
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
    writers.write(Counters(1, 64, 512, 3), {"seconds": 1.5, "train/td_loss": 0.25})
    writers.write(Counters(2, 128, 1024, 3), {"eval/episode_return": 30.0})
    writers.close()
    assert scalars(run_folder) == [
        ("seconds", 512, 1.5),
        ("train/td_loss", 512, 0.25),
        ("eval/episode_return", 1024, 30.0),
    ]


def test_a_resumed_run_drops_what_it_measures_again(run_folder: pathlib.Path) -> None:
    first = Writers(run_folder, Counters(0, 0, 0, 0))
    for env_steps in (512, 1024, 10240):
        counters = Counters(env_steps // 512, env_steps // 8, env_steps, 1)
        first.write(counters, {"seconds": float(env_steps)})
        first.write_workers(counters, {0: {"updates_made": 1.0}, 1: {"updates_made": 2.0}})
    first.close()
    # The checkpoint was made between the second row and the third.
    second = Writers(run_folder, Counters(5, 400, 3000, 1))
    second.write(Counters(6, 450, 3500, 2), {"seconds": 7.0})
    second.write_workers(Counters(6, 450, 3500, 2), {0: {"updates_made": 9.0}})
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
    first = Writers(run_folder, Counters(0, 0, 0, 0))
    first.write(Counters(1, 64, 512, 1), {"seconds": 1.0})
    first.close()
    with (run_folder / directory.METRICS).open("a") as file:
        file.write("2,12")  # the disk was full, or the machine lost its power
    second = Writers(run_folder, Counters(9, 900, 9000, 1))
    second.close()
    assert [row["env_steps"] for row in directory.read_metrics(run_folder)] == ["512"]


def test_each_worker_has_a_row_and_tags_of_its_own(
    writers: Writers, run_folder: pathlib.Path
) -> None:
    rows = {
        0: dict.fromkeys(WORKER_COLUMNS, 1.5) | {"staleness": math.nan},
        3: dict.fromkeys(WORKER_COLUMNS, 2.5),
    }
    writers.write_workers(Counters(1, 64, 512, 3), rows)
    first, second = directory.read_table(run_folder / directory.WORKERS)
    assert list(first) == [*Counters._fields, "worker", *WORKER_COLUMNS]
    assert [first[name] for name in ("env_steps", "worker", "slowness")] == ["512", "0", "1.5"]
    assert first["staleness"] == ""
    assert [second[name] for name in ("env_steps", "worker", "staleness")] == ["512", "3", "2.5"]
    writers.close()
    found = scalars(run_folder)
    assert ("worker_0/slowness", 512, 1.5) in found
    assert ("worker_3/staleness", 512, 2.5) in found
    assert len(found) == 2 * len(WORKER_COLUMNS) - 1, "NaN is left out"


def test_staleness_is_a_histogram_of_pushes(writers: Writers, run_folder: pathlib.Path) -> None:
    writers.write_staleness(Counters(9, 64, 512, 3), {"0": [4, 0, 5], "1": []})
    writers.close()
    (plugin, tag, step, bins), (_, other, _, nothing) = events(run_folder)
    assert (plugin, tag, step) == ("histograms", "worker_0/staleness_histogram", 512)
    # TensorBoard's rows: from, to, how many; each version is in the middle of its bin.
    assert bins.tolist() == [[-0.5, 0.5, 4], [0.5, 1.5, 0], [1.5, 2.5, 5]]
    assert other == "worker_1/staleness_histogram"
    assert nothing[:, 2].sum() == 0


def report(**values: float) -> Report:
    return Report(**(dict.fromkeys(Report._fields, 0.0) | values))


def test_interval_arithmetic() -> None:
    interval = metrics.Interval(started=3.0)
    assert interval.total("updates") == 0
    assert math.isnan(interval.mean("td_loss", "updates"))
    assert math.isnan(interval.most("pull_max"))
    interval.reports += [
        report(updates=2, td_loss=3.0, pull_max=0.5),
        report(updates=6, td_loss=1.0, pull_max=0.25),
    ]
    assert interval.total("td_loss") == 4.0
    assert interval.most("pull_max") == 0.5
    # Weighted by updates, not the mean of the reports' means 1.5 and 1/6.
    assert interval.mean("td_loss", "updates") == 0.5
    assert math.isnan(interval.mean("return_sum", "episodes"))


def test_progress_is_where_the_newest_report_was() -> None:
    progress = metrics.Progress(Counters(100, 6400, 51200, 7))
    progress.add(report(worker=0, run_version=103, run_updates=6592, run_env_steps=52724,
                        run_episodes=10, updates=128, time_pull=0.5))  # fmt: skip
    # Heard of later, although its last push was earlier.
    progress.add(report(worker=1, run_version=102, run_updates=6528, run_env_steps=52212,
                        run_episodes=9, updates=64, time_pull=0.25))  # fmt: skip
    assert progress.counters == Counters(103, 6592, 52724, 10)
    assert all(type(count) is int for count in progress.counters)
    rows = progress.ledger.rows()
    assert [rows[worker]["updates_made"] for worker in (0, 1)] == [128, 64]
    assert [rows[worker]["time_pull"] for worker in (0, 1)] == [0.5, 0.25]


def test_train_row() -> None:
    progress, interval = metrics.Progress(Counters(0, 0, 0, 0)), metrics.Interval(started=10.0)
    # Before the interval: counts for what is of the whole run.
    progress.add(report(worker=0, bytes_pulled=1000, bytes_pushed=100, replay_size=1))
    made = [
        report(
            worker=0, pushes=1, updates=4, env_steps=32, episodes=2, return_sum=30.0, td_loss=2.0,
            q_values=8.0, grad_norm=6.0, staleness=1, staleness_max=1, epsilon=0.5, replay_size=100,
            bytes_pulled=320, bytes_pushed=160, time_acting=0.5, time_pull=0.25, time_push=0.5,
            pull_max=0.25, push_max=0.5,
        ),
        report(
            worker=1, pushes=3, refused=1, updates=12, env_steps=96, episodes=1, return_sum=3.0,
            td_loss=6.0, q_values=8.0, grad_norm=2.0, staleness=6, staleness_max=4, epsilon=0.1,
            withheld_outliers=2, withheld_not_finite=1, replay_size=40, bytes_pulled=480,
            bytes_pushed=320, time_acting=1.5, time_pull=0.75, time_push=1.5, time_waiting=100.0,
            pull_max=0.125, push_max=1.25,
        ),
        # The same worker again: its replay's size replaces the one before. It has not pulled.
        report(worker=1, epsilon=math.nan, replay_size=60),
    ]  # fmt: skip
    for each in made:
        progress.add(each)
        interval.reports.append(each)
    row = progress.train_row(interval, now=14.0, balance=1.25)
    # Seconds an update, waiting left out: 1.25/4 and 3.75/12 are 0.3125 both.
    times = {"acting": 2.0, "pull": 1.0, "push": 2.0, "waiting": 100.0}
    expected = {
        "seconds": 14.0,
        "train/episode_return": 33.0 / 3,
        "train/td_loss": 8.0 / 16,
        "train/q_values": 16.0 / 16,
        "train/grad_norm": 8.0 / 16,
        "train/staleness": 7.0 / 5,  # of decided pushes: 4 applied, 1 refused
        "train/staleness_max": 4.0,
        "train/epsilon": 0.3,
        "replay/size": 160.0,
        "rate/env_steps_per_second": 128 / 4.0,
        "rate/updates_per_second": 16 / 4.0,
        "push/applied": 4.0,
        "push/refused": 1.0,
        "push/withheld": 3.0,
        "wire/bytes_pulled": 1800.0,
        "wire/bytes_pushed": 580.0,
        "wire/bytes_pulled_per_update": 800 / 16,
        "wire/bytes_pushed_per_update": 480 / 16,
        "wire/pull_ms": 1000 * 1.0 / 8,  # 8 exchanges, withheld ones among them
        "wire/pull_ms_max": 250.0,
        "wire/push_ms": 1000 * 2.0 / 8,
        "wire/push_ms_max": 1250.0,
        "wire/shard_balance": 1.25,
        "workers/slowest": 1.0,
        **{f"time/{phase}": times.get(phase, 0.0) for phase in PHASES},
    }
    assert row == pytest.approx(expected)
    assert set(row) | {name for name in metrics.COLUMNS if name.startswith("eval/")} == set(
        metrics.COLUMNS
    )


def test_the_slowest_worker_is_seen_against_the_median() -> None:
    progress = metrics.Progress(Counters(0, 0, 0, 0))
    made = [
        report(worker=worker, updates=10, time_gradient=seconds, time_waiting=50.0)
        for worker, seconds in enumerate((1.0, 2.0, 6.0))
    ]
    row = progress.train_row(metrics.Interval(0.0, made), 1.0, 1.0)
    assert row["workers/slowest"] == pytest.approx(3.0)


def test_episode_return_stays_when_no_episode_ends() -> None:
    progress = metrics.Progress(Counters(0, 0, 0, 0))
    assert math.isnan(progress.episode_return)
    interval = metrics.Interval(0.0, [report(episodes=2, return_sum=9.0)])
    progress.train_row(interval, 1.0, 1.0)
    assert progress.episode_return == 4.5
    row = progress.train_row(metrics.Interval(1.0, [report(updates=1)]), 2.0, 1.0)
    assert math.isnan(row["train/episode_return"])
    assert progress.episode_return == 4.5


def test_an_interval_of_no_length_has_finite_rates() -> None:
    progress = metrics.Progress(Counters(0, 0, 0, 0))
    row = progress.train_row(metrics.Interval(5.0, [report(env_steps=8)]), 5.0, 1.0)
    assert math.isfinite(row["rate/env_steps_per_second"])


def test_evaluation_row() -> None:
    row = metrics.evaluation_row(np.array([1.0, 2.0, 6.0]), 9.0)
    assert row == {
        "seconds": 9.0,
        "eval/episode_return": 3.0,
        "eval/episode_return_min": 1.0,
        "eval/episode_return_max": 6.0,
    }
    assert set(row) <= set(metrics.COLUMNS)


def make_result(num_workers: int) -> Result:
    reports = [
        report(
            worker=worker, updates=10, env_steps=100, pushes=4, refused=1, withheld_outliers=2,
            staleness=10, staleness_max=7, bytes_pulled=2500, bytes_pushed=3_000_000,
            time_gradient=1.0 + worker, time_pull=0.7, time_waiting=3.0,
        )
        for worker in range(num_workers)
    ]  # fmt: skip
    server = {
        "pulls": 70, "pushes": 60, "bytes_out": 4200, "bytes_in": 900, "duplicates": 1,
        "seconds": 0.25, "kinds": {"0": {"applied": 4}}, "staleness": {"0": [3, 1]},
    }  # fmt: skip
    return Result(
        reason="finished",
        seconds=20.0,
        counters=Counters(8, 80, 1000, 3),
        evaluation=None,
        best_return=-math.inf,
        workers=WorkerLedger(reports).rows(),
        servers=[server, server | {"pulls": 71}],
    )


def test_the_summary_has_every_worker_and_every_server(run_folder: pathlib.Path) -> None:
    result = make_result(2)
    summary = summarize(Config(), result, start_seconds=2.5, total_seconds=24.0)
    assert summary["env_steps_per_second"] == 50.0
    assert summary["updates_per_second"] == 4.0
    assert summary["worker_seconds"]["gradient"] == 1.0 + 2.0
    assert summary["worker_seconds"]["waiting"] == 6.0
    assert set(summary["worker_seconds"]) == set(PHASES)
    directory.write_summary(run_folder, summary)
    written = json.loads((run_folder / directory.SUMMARY).read_text())
    assert (written["version"], written["updates"]) == (8, 80)
    assert written["eval_return"] is None, "JSON has no NaN"
    assert list(written["workers"]) == ["0", "1"]
    assert written["workers"]["1"] == pytest.approx(
        {
            "updates_made": 10, "env_steps_made": 100, "pushes_applied": 4, "pushes_refused": 1,
            "pushes_withheld": 2, "staleness": 2.0, "staleness_max": 7, "bytes_pulled": 2500,
            "bytes_pushed": 3_000_000, "pull_ms": 100.0, "push_ms": 0.0,
            "slowness": 2.7 / ((1.7 + 2.7) / 2),
            **{f"time_{phase}": 0.0 for phase in PHASES},
            "time_gradient": 2.0, "time_pull": 0.7, "time_waiting": 3.0,
        }
    )  # fmt: skip
    assert written["parameter_servers"] == result.servers


def shown(result: Result) -> list[list[str]]:
    """The words of each line that is printed at the end of a run."""
    text = io.StringIO()
    summary = summarize(Config(), result, start_seconds=2.5, total_seconds=24.0)
    show(Console(file=text, width=200), summary, pathlib.Path("runs/x"))
    table = str.maketrans(dict.fromkeys("│┃┏┓┗┛━┳┻┡┩╇├┤─┼└┘┴", " "))
    return [line.translate(table).split() for line in text.getvalue().splitlines()]


def test_the_tables_say_what_each_worker_and_server_did() -> None:
    lines = shown(make_result(2))
    [worker] = [line for line in lines if line[:1] == ["1"] and "≤" in line]
    # 4 pushes were applied; 1 was refused and 2 were withheld.
    assert " ".join(worker) == "1 10 4 3 2.0 ≤ 7 2 kB 3 MB 100.0 + 0.0 1.23"
    servers = lines[lines.index(["Parameter", "servers"]) :]
    [second] = [line for line in servers if line[:1] == ["1"]]
    assert " ".join(second) == "1 71 60 1 4 kB 900 B 0.2 s"
    assert ["everything", "is", "in", "runs/x"] in lines


def test_of_many_workers_the_slowest_are_shown() -> None:
    lines = shown(make_result(MOST_WORKERS + 4))
    assert any("16 slowest of 20; workers.csv has all" in " ".join(line) for line in lines)
    rows = [int(line[0]) for line in lines if line[:1] and line[0].isdigit() and "≤" in line]
    assert rows == list(range(19, 3, -1))


def test_a_run_without_a_report_has_tables_too() -> None:
    lines = shown(make_result(0))
    assert not any(line[:1] == ["Workers"] for line in lines)
    assert ["Parameter", "servers"] in lines
