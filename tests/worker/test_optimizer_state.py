"""The optimizer of a worker that comes back: what was saved, or zeros."""

import pathlib

import numpy as np
import pytest
from support.full_disk import full

from ps_dqn.worker.pushes import optimizer_state
from ps_dqn.worker.pushes.optimizer_state import LocalOptimizer
from ps_dqn.worker.tally import Tally

SLOTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def assert_fresh(folder: pathlib.Path, shape: tuple[int, int]) -> None:
    slots, steps, _ = optimizer_state.load(folder, "adam", shape)
    assert (slots.shape, slots.dtype, steps) == (shape, np.float32, 0)
    assert not slots.any()


def test_what_was_saved_last_comes_back(tmp_path: pathlib.Path) -> None:
    optimizer_state.save(tmp_path, "adam", SLOTS, 7)
    optimizer_state.save(tmp_path, "adam", 2 * SLOTS, 8)
    slots, steps, _ = optimizer_state.load(tmp_path, "adam", (2, 3))
    assert slots.dtype == np.float32
    assert slots.tolist() == (2 * SLOTS).tolist()
    assert steps == 8
    assert [path.name for path in tmp_path.iterdir()] == [optimizer_state.NAME]


def test_no_slots_have_steps_too(tmp_path: pathlib.Path) -> None:
    optimizer_state.save(tmp_path, "adam", np.zeros((0, 3), np.float32), 7)
    slots, steps, _ = optimizer_state.load(tmp_path, "adam", (0, 3))
    assert (slots.shape, steps) == ((0, 3), 7)


def test_a_new_worker_has_zeros(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_fresh(tmp_path, (2, 3))
    assert capsys.readouterr().out == ""


def test_another_networks_slots_are_not_taken(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    optimizer_state.save(tmp_path, "adam", SLOTS, 7)
    assert_fresh(tmp_path, (3, 2))
    path = tmp_path / optimizer_state.NAME
    said = f"{path} is of another network or optimizer: it starts afresh\n"
    assert capsys.readouterr().out == said


def test_a_file_that_is_cut_off_or_damaged_is_not_taken(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    optimizer_state.save(tmp_path, "adam", SLOTS, 7)
    path = tmp_path / optimizer_state.NAME
    whole = path.read_bytes()
    at = whole.index(SLOTS.tobytes())
    damaged = [whole[:length] for length in range(0, len(whole), 17)]
    damaged += [whole[:at] + b"\xff" + whole[at + 1 :], whole.replace(b"slots", b"stols")]
    for content in damaged:
        path.write_bytes(content)
        assert_fresh(tmp_path, (2, 3))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(damaged)
    assert all(line.startswith(f"{path} cannot be read (") for line in lines)


def test_a_worker_that_is_killed_while_it_writes_leaves_the_old_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer_state.save(tmp_path, "adam", SLOTS, 7)

    def cut_off(file: object, **arrays: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", cut_off)
    with pytest.raises(KeyboardInterrupt):
        optimizer_state.save(tmp_path, "adam", 2 * SLOTS, 8)
    slots, steps, _ = optimizer_state.load(tmp_path, "adam", (2, 3))
    assert (slots.tolist(), steps) == (SLOTS.tolist(), 7)


def test_a_full_disk_is_said_once_and_leaves_the_old_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = Tally()
    kept = LocalOptimizer("adam", (2, 3), tmp_path, tally)
    kept.update(SLOTS, 7)
    assert kept.save()
    write = np.savez

    def half(file: object, **arrays: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        full()

    monkeypatch.setattr(np, "savez", half)
    kept.update(2 * SLOTS, 8)
    assert [kept.save(), kept.save()] == [False, False]
    assert [path.name for path in tmp_path.iterdir()] == [optimizer_state.NAME]
    assert tally.take()["failed_writes"] == 2
    assert LocalOptimizer("adam", (2, 3), tmp_path, tally).steps == 7
    monkeypatch.setattr(np, "savez", write)
    assert kept.save()
    assert tally.take()["failed_writes"] == 0
    assert LocalOptimizer("adam", (2, 3), tmp_path, tally).steps == 15
    assert capsys.readouterr().out.splitlines() == [
        "optimizer files cannot be written (No space left on device): training goes on, and it is "
        "tried again",
        "optimizer files are written again",
    ]


def test_slots_of_another_optimizer_are_not_used(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    optimizer_state.save(tmp_path, "adagrad", SLOTS, 7)
    slots, steps, _ = optimizer_state.load(tmp_path, "rmsprop", (2, 3))
    assert not slots.any()
    assert steps == 0
    assert "another network or optimizer" in capsys.readouterr().out
