"""Whether a command can write where it is told to, before it does anything else."""

import pathlib

import pytest

from ps_dqn.errors import UsageError
from ps_dqn.run import outputs


def test_nothing_is_left_of_a_file_that_can_be_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new" / "film.mp4"
    outputs.check_file(path, "--video=film.mp4")
    assert not path.exists()
    assert path.parent.is_dir()


def test_a_file_that_is_there_stays_as_it_is(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_text("before")
    outputs.check_file(path, "--video=film.mp4")
    assert path.read_text() == "before"


# Even root cannot write below a regular file, nor make a file in /proc.
@pytest.mark.parametrize("name", ["file/film.mp4", "folder", "/proc/film.mp4"])
def test_a_file_that_cannot_be_written_is_refused(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=r"^--video=x: cannot be written \(.+\)$"):
        outputs.check_file(tmp_path / name, "--video=x")


def test_a_folder_is_made_and_empty(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new" / "out"
    outputs.make_folder(path, "--output=out")
    assert list(path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/out", "/proc"])
def test_a_folder_that_cannot_be_written_is_refused(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^--output=x: cannot be written \(.+\)$"):
        outputs.make_folder(tmp_path / name, "--output=x")
