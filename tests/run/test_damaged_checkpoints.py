"""Checkpoints that are damaged, or cannot be written."""

import errno
import math
import pathlib

import numpy as np
import pytest
from support.states import assert_same, names, state

from ps_dqn.errors import FolderError, UsageError
from ps_dqn.run import checkpoints
from ps_dqn.run.checkpoints import Checkpoints


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
    held.newest()
    [said] = held.skipped
    assert path.name in said


def test_a_damaged_best_is_none(tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=1)
    assert held.best_return() == -math.inf
    held.save_best(state(10), 1.0, eval_return=5.0)
    assert held.best_return() == 5.0
    assert held.skipped == []
    truncate(tmp_path / "best.npz")
    assert held.best_return() == -math.inf
    assert "best.npz" in held.skipped[0]


def test_a_write_that_fails_leaves_what_there_was(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Checkpoints(tmp_path, keep=1)
    held.save_newest(state(10), 1.0)
    before = names(tmp_path)

    def fail(file, **_):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="full"):
        held.save_newest(state(20), 2.0)
    assert [path.name for path in tmp_path.iterdir()] == before
    assert_same(held.newest().state, state(10))


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_damaged_is_an_error(damage, tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=3)
    for updates in (10, 20):
        damage(held.save_newest(state(updates), 0.0))
    with pytest.raises(UsageError, match="all are damaged"):
        held.newest()


def test_a_disk_that_does_not_give_them_is_no_damage(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may give them later: in a pod the run is tried again."""
    held = Checkpoints(tmp_path, keep=3)
    held.save_newest(state(10), 0.0)
    truncate(held.save_newest(state(20), 0.0))

    def fails(path: pathlib.Path, *_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as ill:
        ill.setattr(pathlib.Path, "open", fails)
        with pytest.raises(FolderError, match=r"cannot be read: .*Input/output error"):
            held.newest()
    found = held.newest()
    assert found is not None
    assert_same(found.state, state(10))
