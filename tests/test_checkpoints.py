"""Checkpoints, and the other files of a run: its folder, its metrics and what they are made of."""

import csv
import dataclasses
import math
import os
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import checkpoints, metrics, run_directory
from ps_dqn.checkpoints import Checkpoints
from ps_dqn.errors import UsageError
from ps_dqn.reports import PHASES, Report
from ps_dqn.state import Counters, State
from ps_dqn.writers import Writers

VECTORS = [field.name for field in dataclasses.fields(State)][:-2]  # then slots and counters


def state(updates: int, slots: int = 2) -> State:
    rng = np.random.default_rng(updates)
    vectors = {name: rng.normal(size=5).astype(np.float32) for name in VECTORS}
    kept = tuple(rng.normal(size=5).astype(np.float32) for _ in range(slots))
    counters = Counters(updates // 2, updates, 10**12, 3)
    return State(**vectors, slots=kept, counters=counters)


def assert_same(one: State, other: State) -> None:
    assert one.counters == other.counters
    assert len(one.slots) == len(other.slots)
    pairs = [(getattr(one, name), getattr(other, name)) for name in VECTORS]
    for first, second in [*pairs, *zip(one.slots, other.slots, strict=True)]:
        assert first.dtype == second.dtype == np.float32
        assert (first == second).all()


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("slots", [0, 1, 2])
def test_what_is_saved_is_loaded(slots: int, tmp_path: pathlib.Path) -> None:
    saved = state(70, slots)
    path = Checkpoints(tmp_path, keep=3).save_newest(saved, seconds=12.5)
    found = Checkpoints(tmp_path, keep=3).newest()
    assert found is not None
    assert found.path == path
    assert found.seconds == 12.5
    assert math.isnan(found.eval_return)
    assert_same(found.state, saved)
    assert all(type(count) is int for count in found.state.counters)
    assert_same(checkpoints.load(path).state, saved)


def test_nothing_saved_is_none(tmp_path: pathlib.Path) -> None:
    assert Checkpoints(tmp_path, keep=3).newest() is None
    assert Checkpoints(tmp_path, keep=3).best() is None


def test_the_newest_few_are_kept(tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=2)
    held.save_best(state(1), 1.0, 5.0)
    # Numbers of different lengths: their order must be that of numbers, not of text.
    paths = [held.save_newest(state(updates), 0.0) for updates in (9, 10, 99, 100)]
    assert names(tmp_path) == sorted(["best.npz", paths[2].name, paths[3].name])
    found = held.newest()
    assert found is not None
    assert found.state.counters.updates == 100


def test_saving_twice_at_the_same_updates_keeps_the_later(tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=2)
    held.save_newest(state(10), 1.0)
    held.save_newest(dataclasses.replace(state(10), online=np.zeros(5, np.float32)), 2.0)
    found = held.newest()
    assert found is not None
    assert found.seconds == 2.0
    assert not found.state.online.any()
    assert len(names(tmp_path)) == 1


def test_the_best_is_replaced(tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=2)
    held.save_best(state(100), 1.0, eval_return=5.0)
    held.save_best(state(50), 2.0, eval_return=7.0)
    found = held.best()
    assert found is not None
    assert (found.eval_return, found.seconds, found.state.counters.updates) == (7.0, 2.0, 50)
    assert_same(found.state, state(50))
    assert names(tmp_path) == ["best.npz"]
    assert held.newest() is None, "the best is nothing to resume from"


def truncate(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


def replace_by_text(path: pathlib.Path) -> None:
    path.write_text("not a checkpoint")


def flip_a_parameter(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    at = content.index(checkpoints.load(path).state.online.tobytes())
    content[at + 3] ^= 1
    path.write_bytes(content)


def leave_a_field_out(path: pathlib.Path) -> None:
    with np.load(path) as data:
        fields = {name: data[name] for name in data.files if name != "target"}
    np.savez(path, **fields)


def replace_by_an_array(path: pathlib.Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


DAMAGES = [
    truncate, empty, replace_by_text, flip_a_parameter, leave_a_field_out, replace_by_an_array,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_falls_back(damage, tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=3)
    for updates in (10, 20, 30):
        path = held.save_newest(state(updates), float(updates))
    damage(path)
    found = held.newest()
    assert found is not None
    assert_same(found.state, state(20))
    with pytest.raises(UsageError, match=path.name):
        checkpoints.load(path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_damaged_is_an_error(damage, tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=3)
    for updates in (10, 20):
        damage(held.save_newest(state(updates), 0.0))
    with pytest.raises(UsageError, match="all are damaged"):
        held.newest()


def test_no_single_damaged_byte_escapes(tmp_path: pathlib.Path) -> None:
    path = Checkpoints(tmp_path, keep=3).save_newest(state(10, slots=0), 1.0)
    whole = path.read_bytes()
    # Every byte of the zip file's directory, in which each means something else, and a few of the
    # contents, which have a checksum.
    directory = whole.index(b"PK\x01\x02")
    places = [*range(0, directory, 16), *range(directory, len(whole))]
    refused = 0
    escaped = {}
    for at in places:
        broken = bytearray(whole)
        broken[at] ^= 1
        path.write_bytes(broken)
        try:
            # Some bytes, such as a file's date, mean nothing here: then all must be as it was.
            assert_same(checkpoints.load(path).state, state(10, slots=0))
        except UsageError:
            refused += 1
        except Exception as error:
            escaped[at] = repr(error)
    assert refused > len(places) // 4
    assert escaped == {}


def test_what_a_killed_save_left_is_ignored(tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=2)
    path = held.save_newest(state(10), 0.0)
    content = path.read_bytes()
    left = path.with_name("updates-000000000020.tmp")
    left.write_bytes(content[:100])
    found = held.newest()
    assert found is not None
    assert found.path == path
    # Neither is it counted among those to keep, nor is it in the way.
    held.save_newest(state(20), 0.0)
    found = held.newest()
    assert found is not None
    assert_same(found.state, state(20))
    assert names(tmp_path) == [path.name, "updates-000000000020.npz"]


def test_a_failed_save_leaves_the_old_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Checkpoints(tmp_path, keep=2)
    held.save_best(state(10), 0.0, 5.0)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        held.save_best(state(20), 0.0, 6.0)
    monkeypatch.undo()
    found = held.best()
    assert found is not None
    assert found.eval_return == 5.0


def make_run(name: str, updates: int = 10, seconds: float = 0.0) -> pathlib.Path:
    path = run_directory.RUNS / name
    run_directory.create(path)
    folder = path / run_directory.CHECKPOINTS
    if updates:
        Checkpoints(folder, keep=3).save_newest(state(updates), 0.0)
    os.utime(folder, (seconds, seconds))
    return path


@pytest.fixture
def in_tmp(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("in_tmp")
def test_newest_run_is_the_one_saved_last() -> None:
    assert run_directory.newest() is None
    make_run("b", updates=10, seconds=2000)
    make_run("a", updates=500, seconds=3000)
    make_run("c", updates=900, seconds=1000)
    # Started later, but there is nothing in it to resume from.
    make_run("d", updates=0, seconds=4000)
    assert run_directory.newest() == pathlib.Path("runs/a")


@pytest.mark.usefixtures("in_tmp")
def test_has_checkpoint() -> None:
    path = make_run("a", updates=0)
    assert not run_directory.has_checkpoint(path)
    assert not run_directory.has_checkpoint(pathlib.Path("runs/none"))
    held = Checkpoints(path / run_directory.CHECKPOINTS, keep=1)
    held.save_best(state(10), 0.0, 1.0)
    assert not run_directory.has_checkpoint(path), "the best is nothing to resume from"
    held.save_newest(state(10), 0.0)
    assert run_directory.has_checkpoint(path)


@pytest.mark.usefixtures("in_tmp")
def test_new_paths_are_not_taken() -> None:
    made = set()
    for _ in range(5):
        path = run_directory.new_path("ALE/Pong:x-v5")
        assert path.parent == run_directory.RUNS, "the id's slash is no folder"
        assert path.name.startswith("ALE-Pong-x-v5-")
        assert not path.exists()
        run_directory.create(path)
        made.add(path)
    assert len(made) == 5


def test_create_completes_and_refuses(tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        run_directory.create(tmp_path / "run")
        assert names(tmp_path / "run") == ["checkpoints", "logs", "tensorboard"]
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        run_directory.create(tmp_path / "file")


def test_summary_has_no_numbers_json_does_not_know(tmp_path: pathlib.Path) -> None:
    values = {"a": math.nan, "b": {"c": math.inf, "d": 1.5}, "e": "text", "f": None, "g": 3}
    run_directory.write_summary(tmp_path, values)
    text = (tmp_path / run_directory.SUMMARY).read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert '"c": null' in text
    assert '"d": 1.5' in text


@pytest.fixture
def run_folder(tmp_path: pathlib.Path) -> pathlib.Path:
    run_directory.create(tmp_path)
    return tmp_path


@pytest.fixture
def writers(run_folder: pathlib.Path) -> Iterator[Writers]:
    made = Writers(run_folder, Counters(0, 0, 0, 0))
    yield made
    made.close()


def test_rows_are_written_at_once(writers: Writers, run_folder: pathlib.Path) -> None:
    writers.write(Counters(1, 64, 512, 3), {"seconds": 1.25, "train/td_loss": 0.123456789})
    [row] = run_directory.read_metrics(run_folder)
    assert list(row) == ["version", "updates", "env_steps", "episodes", *metrics.COLUMNS]
    assert [row[name] for name in Counters._fields] == ["1", "64", "512", "3"]
    assert row["seconds"] == "1.25"
    assert row["train/td_loss"] == "0.123457"
    assert row["eval/episode_return"] == ""


def test_nan_is_left_out(writers: Writers, run_folder: pathlib.Path) -> None:
    values = {"train/episode_return": math.nan, "train/td_loss": 0.0}
    writers.write(Counters(1, 64, 512, 0), values)
    writers.close()
    [row] = run_directory.read_metrics(run_folder)
    assert row["train/episode_return"] == ""
    assert row["train/td_loss"] == "0"
    assert scalars(run_folder) == [("train/td_loss", 512, 0.0)]


def scalars(folder: pathlib.Path) -> list[tuple[str, int, float]]:
    """What TensorBoard finds: tag, step and value."""
    [path] = (folder / run_directory.TENSORBOARD).glob("events.out.tfevents.*")
    found = []
    for record in tf.compat.v1.io.tf_record_iterator(str(path)):
        event = tf.compat.v1.Event.FromString(record)
        for value in event.summary.value:
            assert value.metadata.plugin_data.plugin_name == "scalars"
            found.append((value.tag, event.step, float(tf.make_ndarray(value.tensor))))
    return found


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
    first.close()
    # The checkpoint was made between the second row and the third.
    second = Writers(run_folder, Counters(5, 400, 3000, 1))
    second.write(Counters(6, 450, 3500, 2), {"seconds": 7.0})
    second.close()
    rows = run_directory.read_metrics(run_folder)
    assert [row["env_steps"] for row in rows] == ["512", "1024", "3500"]
    assert [row["seconds"] for row in rows] == ["512", "1024", "7"]
    with (run_folder / run_directory.METRICS).open(newline="") as file:
        assert [row[0] for row in csv.reader(file)].count("version") == 1, "one header"


def test_a_half_written_row_does_not_prevent_resuming(run_folder: pathlib.Path) -> None:
    first = Writers(run_folder, Counters(0, 0, 0, 0))
    first.write(Counters(1, 64, 512, 1), {"seconds": 1.0})
    first.close()
    with (run_folder / run_directory.METRICS).open("a") as file:
        file.write("2,12")  # the disk was full, or the machine lost its power
    second = Writers(run_folder, Counters(9, 900, 9000, 1))
    second.close()
    assert [row["env_steps"] for row in run_directory.read_metrics(run_folder)] == ["512"]


def report(**values: float) -> Report:
    return Report(**(dict.fromkeys(Report._fields, 0.0) | values))


def test_interval_arithmetic() -> None:
    interval = metrics.Interval(started=3.0)
    assert interval.total("updates") == 0
    assert math.isnan(interval.mean("td_loss", "updates"))
    interval.reports += [report(updates=2, td_loss=3.0), report(updates=6, td_loss=1.0)]
    assert interval.total("td_loss") == 4.0
    # Weighted by updates, not the mean of the reports' means 1.5 and 1/6.
    assert interval.mean("td_loss", "updates") == 0.5
    assert math.isnan(interval.mean("return_sum", "episodes"))


def test_progress_counts_on_from_where_it_started() -> None:
    progress = metrics.Progress(Counters(100, 6400, 51200, 7))
    one = report(worker=0, pushes=2, updates=128, env_steps=1024, episodes=3, time_pull=0.5)
    other = report(worker=1, pushes=1, updates=64, env_steps=500, time_pull=0.25, time_push=1.0)
    progress.add(one)
    progress.add(other)
    assert progress.counters == Counters(103, 6592, 52724, 10)
    assert all(type(count) is int for count in progress.counters)
    assert progress.phase_seconds["pull"] == 0.75
    assert progress.phase_seconds["push"] == 1.0
    assert progress.phase_seconds["environment"] == 0.0
    assert progress.last_report == other


def test_train_row() -> None:
    progress, interval = metrics.Progress(Counters(0, 0, 0, 0)), metrics.Interval(started=10.0)
    made = [
        report(
            worker=0, pushes=1, updates=4, env_steps=32, episodes=2, return_sum=30.0, td_loss=2.0,
            q_values=8.0, grad_norm=6.0, staleness=1, epsilon=0.5, replay_size=100, time_acting=0.5,
        ),
        report(
            worker=1, pushes=3, updates=12, env_steps=96, episodes=1, return_sum=3.0, td_loss=6.0,
            q_values=8.0, grad_norm=2.0, staleness=5, epsilon=0.1, replay_size=40, time_acting=1.5,
        ),
        # The same worker again: its replay's size replaces the one before.
        report(worker=1, epsilon=0.3, replay_size=60),
    ]  # fmt: skip
    for each in made:
        progress.add(each)
        interval.reports.append(each)
    row = progress.train_row(interval, now=14.0)
    expected = {
        "seconds": 14.0,
        "train/episode_return": 33.0 / 3,
        "train/td_loss": 8.0 / 16,
        "train/q_values": 16.0 / 16,
        "train/grad_norm": 8.0 / 16,
        "train/staleness": 6.0 / 4,
        "train/epsilon": 0.3,
        "replay/size": 160.0,
        "rate/env_steps_per_second": 128 / 4.0,
        "rate/updates_per_second": 16 / 4.0,
        **{f"time/{phase}": 2.0 if phase == "acting" else 0.0 for phase in PHASES},
    }
    assert row == pytest.approx(expected)
    assert set(row) <= set(metrics.COLUMNS)


def test_episode_return_stays_when_no_episode_ends() -> None:
    progress = metrics.Progress(Counters(0, 0, 0, 0))
    assert math.isnan(progress.episode_return)
    interval = metrics.Interval(0.0, [report(episodes=2, return_sum=9.0)])
    progress.train_row(interval, 1.0)
    assert progress.episode_return == 4.5
    row = progress.train_row(metrics.Interval(1.0, [report(updates=1)]), 2.0)
    assert math.isnan(row["train/episode_return"])
    assert progress.episode_return == 4.5


def test_an_interval_of_no_length_has_finite_rates() -> None:
    progress = metrics.Progress(Counters(0, 0, 0, 0))
    row = progress.train_row(metrics.Interval(5.0, [report(env_steps=8)]), 5.0)
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
