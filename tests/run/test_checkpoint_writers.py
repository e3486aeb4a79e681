"""Several threads, and processes one after another, that write the checkpoints of one folder."""

import os
import pathlib
import threading
from collections.abc import Callable

import pytest
from support import seen_by
from support.states import assert_same, names, state

from ps_dqn.run import checkpoints, directory
from ps_dqn.run.checkpoints import Checkpoints


class SlowDisk:
    """`os.fsync` that calls something while the first file is written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]):
        self.writers: list[threading.Thread] = []  # that came to it
        self._fsync, self._meanwhile = os.fsync, meanwhile
        monkeypatch.setattr(os, "fsync", self._slowly)

    def _slowly(self, descriptor: int) -> None:
        self.writers.append(threading.current_thread())
        if len(self.writers) == 1:
            self._meanwhile()
        self._fsync(descriptor)


def test_who_saves_as_the_process_ends_waits_for_who_does_so_already(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Checkpoints(tmp_path, keep=2)
    saved: list[bool] = []
    other = threading.Thread(target=lambda: saved.append(held.save_newer(state(10), 1.0)))
    found: list[pathlib.Path] = []

    def meanwhile() -> None:
        other.start()
        other.join(0.5)  # one that does not wait has written by then
        found.extend(tmp_path.iterdir())

    disk = SlowDisk(monkeypatch, meanwhile)
    held.save_newest(state(10), 2.0)
    other.join()
    assert len(found) == len(disk.writers) == 1, "two threads wrote at a time"
    assert saved == [False], "there is nothing left to save for the second one"
    newest = held.newest()
    assert newest is not None
    assert newest.seconds == 2.0
    assert_same(newest.state, state(10))
    assert names(tmp_path) == ["updates-000000000010.npz"]


def test_only_what_is_newer_is_saved_beside_the_newest(tmp_path: pathlib.Path) -> None:
    held = Checkpoints(tmp_path, keep=2)
    assert held.save_newer(state(10), 1.0)
    assert not held.save_newer(state(10), 2.0)
    assert not held.save_newer(state(9), 2.0)
    assert held.save_newer(state(11), 2.0)
    assert names(tmp_path) == ["updates-000000000010.npz", "updates-000000000011.npz"]


def test_each_writer_has_a_temporary_file_of_its_own(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those of two processes: one has let go of the folder without having ended.
    one, other = Checkpoints(tmp_path, keep=2), Checkpoints(tmp_path, keep=2)
    found: list[str] = []

    def meanwhile() -> None:
        thread = threading.Thread(target=other.save_newest, args=[state(10), 3.0])
        thread.start()
        thread.join()
        found.extend(names(tmp_path))

    SlowDisk(monkeypatch, meanwhile)
    one.save_newest(state(10), 2.0)
    assert len(found) == 2
    assert "updates-000000000010.npz" in found
    newest = one.newest()
    assert newest is not None
    assert newest.seconds == 2.0


def test_it_is_seen_that_one_is_written_and_when_that_began_or_ended(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Checkpoints(tmp_path, keep=2)
    now, seen = [100.0], list[tuple[bool, float]]()
    seen_by.clock(monkeypatch, checkpoints, monotonic=lambda: now[0])

    def meanwhile() -> None:
        seen.append((held.is_writing, held.last_sign))
        now[0] += 20.0

    assert not held.is_writing
    SlowDisk(monkeypatch, meanwhile)
    held.save_newest(state(10), 2.0)
    assert seen == [(True, 100.0)]
    assert (held.is_writing, held.last_sign) == (False, 120.0)


def test_one_that_fails_is_no_longer_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave() -> None:
        raise SystemExit(130)  # a second signal, in the middle of it

    held = Checkpoints(tmp_path, keep=2)
    SlowDisk(monkeypatch, leave)
    with pytest.raises(SystemExit):
        held.save_best(state(10), 2.0, 5.0)
    assert not held.is_writing
    assert names(tmp_path) == []
    held.save_newest(state(10), 2.0)


def test_what_killed_processes_left_unfinished_goes_once_the_folder_is_opened(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / directory.CHECKPOINTS
    folder.mkdir()
    held = Checkpoints(folder, keep=2)
    held.save_newest(state(10), 2.0)
    held.save_best(state(10), 2.0, 5.0)
    whole = names(folder)
    for name in ("updates-000000000020.tmp", "updates-000000000030.7-7.tmp", "best.7-7.tmp"):
        (folder / name).write_bytes(b"half")
    directory.create(tmp_path)
    assert names(folder) == whole
    ours = folder / "updates-000000000040.7-7.tmp"
    ours.touch()
    directory.create(tmp_path)  # again, as this process writes
    assert ours.exists()
