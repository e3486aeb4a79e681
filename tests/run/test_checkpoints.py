"""Checkpoints, and the folder of a run they are in."""

import dataclasses
import math
import os
import pathlib

import numpy as np
import pytest
from support.states import assert_same, names, state

from ps_dqn.errors import UsageError
from ps_dqn.run import checkpoints, directory
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters


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


def test_the_first_checkpoints_had_no_sequential_updates(tmp_path: pathlib.Path) -> None:
    path = Checkpoints(tmp_path, keep=3).save_newest(state(70), seconds=12.5)
    with np.load(path) as data:
        fields = {name: data[name] for name in data.files}
    assert fields["counters"].tolist() == [35, 70, 10**12, 3, 17]
    np.savez(path, **{**fields, "counters": fields["counters"][:4]})
    loaded = checkpoints.load(path)
    # Each update then counted for itself.
    assert loaded.state.counters == Counters(35, 70, 10**12, 3, 70)
    assert all(type(count) is int for count in loaded.state.counters)
    assert (loaded.state.online == state(70).online).all()


def test_what_was_seen_of_the_environments_is_saved(tmp_path: pathlib.Path) -> None:
    seen = np.array([3.0, 0.1, -0.2, 4.0, 5.0]).view(np.int64)
    saved = dataclasses.replace(state(70), moments=seen)
    path = Checkpoints(tmp_path, keep=3).save_newest(saved, seconds=1.0)
    assert checkpoints.load(path).state.moments.tolist() == seen.tolist()
    # Those before had none.
    with np.load(path) as data:
        fields = {name: data[name] for name in data.files if name != "moments"}
    np.savez(path, **fields)
    assert checkpoints.load(path).state.moments.tolist() == []


def test_the_loss_scale_is_saved(tmp_path: pathlib.Path) -> None:
    saved = dataclasses.replace(state(70), loss_scale=2**24)
    path = Checkpoints(tmp_path, keep=3).save_newest(saved, seconds=1.0)
    assert checkpoints.load(path).state.loss_scale == 2**24
    # Those before had none.
    with np.load(path) as data:
        fields = {name: data[name] for name in data.files if name != "loss_scale"}
    np.savez(path, **fields)
    assert checkpoints.load(path).state.loss_scale == 0


def test_what_the_slots_are_of_is_saved(tmp_path: pathlib.Path) -> None:
    saved = dataclasses.replace(state(70), slots_of="outer nesterov")
    path = Checkpoints(tmp_path, keep=3).save_newest(saved, seconds=1.0)
    assert checkpoints.load(path).state.slots_of == "outer nesterov"
    # Those before did not say.
    with np.load(path) as data:
        fields = {name: data[name] for name in data.files if name != "slots_of"}
    np.savez(path, **fields)
    assert checkpoints.load(path).state.slots_of == ""


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
    assert names(tmp_path) == [path.name, "updates-000000000020.npz", left.name]


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
    path = directory.RUNS / name
    directory.create(path)
    folder = path / directory.CHECKPOINTS
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
    assert directory.newest() is None
    make_run("b", updates=10, seconds=2000)
    make_run("a", updates=500, seconds=3000)
    make_run("c", updates=900, seconds=1000)
    # Started later, but there is nothing in it to resume from.
    make_run("d", updates=0, seconds=4000)
    assert directory.newest() == pathlib.Path("runs/a")


@pytest.mark.usefixtures("in_tmp")
def test_has_checkpoint() -> None:
    path = make_run("a", updates=0)
    assert not directory.has_checkpoint(path)
    assert not directory.has_checkpoint(pathlib.Path("runs/none"))
    held = Checkpoints(path / directory.CHECKPOINTS, keep=1)
    held.save_best(state(10), 0.0, 1.0)
    assert not directory.has_checkpoint(path), "the best is nothing to resume from"
    held.save_newest(state(10), 0.0)
    assert directory.has_checkpoint(path)


def test_training_has_begun_where_it_has_left_anything(tmp_path: pathlib.Path) -> None:
    directory.create(tmp_path)
    directory.new_identity(tmp_path)
    assert not directory.has_begun(tmp_path)
    held = Checkpoints(tmp_path / directory.CHECKPOINTS, keep=1)
    best = held.save_best(state(10), 0.0, 1.0)
    assert directory.has_begun(tmp_path)
    best.unlink()
    assert not directory.has_begun(tmp_path)
    (tmp_path / directory.METRICS).write_text("env_steps\n")
    assert directory.has_begun(tmp_path)


def test_create_completes_and_refuses(tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        directory.create(tmp_path / "run")
        assert names(tmp_path / "run") == ["checkpoints", "lock", "logs", "tensorboard"]
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        directory.create(tmp_path / "file")


def test_summary_has_no_numbers_json_does_not_know(tmp_path: pathlib.Path) -> None:
    values = {"a": math.nan, "b": {"c": math.inf, "d": 1.5}, "e": "text", "f": None, "g": 3}
    directory.write_summary(tmp_path, values)
    text = (tmp_path / directory.SUMMARY).read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert '"c": null' in text
    assert '"d": 1.5' in text
