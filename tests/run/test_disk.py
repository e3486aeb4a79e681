"""Writes that fail for a while: told once, counted, and made good."""

import pathlib
import threading

import pytest
from support import seen_by
from support.full_disk import FullDisk, full

from ps_dqn.run import stages
from ps_dqn.run.disk import Appended, Disk


def test_a_write_that_fails_is_told_once_until_it_works_again() -> None:
    said: list[str] = []
    disk = Disk(said.append)
    done: list[int] = []
    assert disk.write("rows", lambda: done.append(1))
    assert said == []
    assert not disk.write("rows", full)
    assert not disk.write("rows", full)
    assert said == [
        "rows cannot be written (No space left on device): training goes on, and it is tried again"
    ]
    assert disk.write("others", lambda: done.append(2))
    assert disk.write("rows", lambda: done.append(3))
    assert said[1:] == ["rows are written again"]
    assert (disk.failures, done) == (2, [1, 2, 3])


@pytest.mark.parametrize("method", ["write", "write_last"])
def test_people_hear_of_a_write_that_takes_its_time(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As that of a volume whose server is started again.
    monkeypatch.setattr(stages, "PATIENCE", 0.01)
    threads = seen_by.threads(monkeypatch, stages)
    said, is_said = list[str](), threading.Event()

    def say(line: str) -> None:
        said.append(line)
        is_said.set()

    def write() -> None:
        assert is_said.wait(20), "nobody hears why the run stands still"

    getattr(Disk(say), method)("checkpoints", write)
    assert said[0] == "writing checkpoints"
    [thread] = threads
    assert not thread.is_alive(), "whoever forks has one thread"


def test_errors_that_are_not_the_disks_are_raised() -> None:
    with pytest.raises(ValueError, match="a mistake"):
        Disk(print).write("rows", lambda: int("a mistake"))


def test_a_piece_is_written_whole_or_waits(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"before\n")
    file, disk = Appended(path), FullDisk(monkeypatch, room=9)
    file.write(b"first\n")
    for piece in (b"second\n", b"third\n"):
        with pytest.raises(OSError, match="No space"):
            file.write(piece)
        assert path.read_bytes() == b"before\nfirst\n"  # no half of a row
    disk.room = 100
    file.write(b"fourth\n")
    assert path.read_bytes() == b"before\nfirst\nsecond\nthird\nfourth\n"
    file.close()
    file.close()


def test_only_lines_that_are_wanted_stay_and_that_takes_no_room(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"1\n2\n9\n3\nhalf")
    file, disk = Appended(path), FullDisk(monkeypatch, room=0)
    file.keep(lambda line: line.strip() < b"6")
    assert path.read_bytes() == b"1\n2\n"
    for line in (b"4\n", b"8\n", b"5\n"):
        file.add(line)
    file.keep(lambda line: line.strip() < b"6")
    file.keep(lambda line: line != b"5\n")
    with pytest.raises(OSError, match="No space"):
        file.flush()
    disk.room = 100
    file.flush()
    assert path.read_bytes() == b"1\n2\n3\n4\n"
    file.keep(lambda line: line != b"4\n")
    file.write(b"5\n")
    assert path.read_bytes() == b"1\n2\n3\n5\n"
    file.close()
