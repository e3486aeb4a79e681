"""Files that a refused run has written anew are what they were before, on a full disk too."""

import os
import pathlib
from collections.abc import Callable

import pytest
from support.full_disk import full

from ps_dqn.run import disk
from ps_dqn.run.overwritten import Overwritten


class Filled:
    """A folder's files, and a disk that takes nothing more once it is told so."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
        self.folder, self._monkeypatch = folder, monkeypatch

    def fill(self) -> None:
        # To open a file for writing empties it, and what follows has no room.
        for name in ("write_bytes", "write_text"):
            self._monkeypatch.setattr(pathlib.Path, name, self._emptied)

    @staticmethod
    def _emptied(path: pathlib.Path, content: object) -> None:
        path.open("wb").close()
        full()


@pytest.fixture
def filled(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Filled:
    return Filled(tmp_path, monkeypatch)


def test_what_was_there_is_put_back_and_what_was_not_is_removed(tmp_path: pathlib.Path) -> None:
    flags, new = tmp_path / "flags.txt", tmp_path / "folder" / "summary.json"
    flags.write_text("--gamma=0.9\n")
    before = Overwritten([flags, new])
    flags.write_text("--gamma=0.5\n")
    new.parent.mkdir()
    new.write_text("{}")
    before.put_back()
    assert flags.read_text() == "--gamma=0.9\n"
    assert [path.name for path in tmp_path.iterdir()] == ["flags.txt"]


def test_a_file_is_never_emptied_where_its_content_cannot_be_written(filled: Filled) -> None:
    flags, same = filled.folder / "flags.txt", filled.folder / "environment.txt"
    flags.write_text("--gamma=0.9\n")
    same.write_text("python: 3.11\n")
    before = Overwritten([flags, same])
    flags.write_text("--gamma=0.5\n")
    filled.fill()
    before.put_back()
    assert flags.read_text() == "--gamma=0.5\n"
    assert same.read_text() == "python: 3.11\n"
    assert sorted(path.name for path in filled.folder.iterdir()) == [same.name, flags.name]


def test_what_was_appended_is_cut_off_and_that_takes_no_room(filled: Filled) -> None:
    environment = filled.folder / "environment.txt"
    environment.write_text("python: 3.11\n")
    before = Overwritten([environment])
    environment.write_text("python: 3.11\n\npython: 3")
    filled.fill()
    before.put_back()
    assert environment.read_text() == "python: 3.11\n"


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is told of files, as it comes: to be on the disk, to be renamed."""
    told: list[str] = []

    def told_of(name: str) -> Callable[..., None]:
        act = getattr(os, name)

        def tell(*arguments: object) -> None:
            told.append(name)
            act(*arguments)

        return tell

    for name in ("fsync", "replace"):
        monkeypatch.setattr(disk.os, name, told_of(name))
    return told


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: pathlib.Path, order: list[str]
) -> None:
    # Otherwise a machine that loses its power may keep the name of a file without its content.
    with disk.beside(tmp_path / "summary.json") as temporary:
        temporary.write_text("{}")
    assert order == ["fsync", "replace"]
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
