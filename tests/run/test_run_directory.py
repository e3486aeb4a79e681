"""Which folders a run may write into."""

import concurrent.futures
import pathlib

import pytest

from ps_dqn.errors import UsageError
from ps_dqn.run import directory


@pytest.mark.parametrize("name", ["workers", "summary.json", "metrics.csv", "flags.txt", "logs"])
def test_a_folder_of_something_else_is_refused(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError) as caught:
        directory.check_free(tmp_path)
    assert str(caught.value) == (
        f"--run_dir={tmp_path}: has {name}, and is no run's folder: say another"
    )


def test_a_folder_with_the_code_of_an_environment_alone_is_new(tmp_path: pathlib.Path) -> None:
    assert directory.is_new(tmp_path / "nothing")
    (tmp_path / directory.GIVEN).mkdir()  # where Python's `train` has put one
    assert directory.is_new(tmp_path)
    directory.create(tmp_path)
    assert not directory.is_new(tmp_path)


def test_folders_that_are_free_or_a_runs_are_taken(tmp_path: pathlib.Path) -> None:
    directory.check_free(tmp_path / "new")
    (tmp_path / directory.GIVEN).mkdir()
    (tmp_path / "notes.md").touch()
    directory.check_free(tmp_path)
    directory.create(tmp_path)
    directory.write_flags(tmp_path, "--gamma=0.9")
    directory.check_free(tmp_path)


def test_a_file_and_a_student_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written \(it is a file\)"):
        directory.check_free(tmp_path / "file")
    directory.create(tmp_path)
    directory.write_flags(tmp_path, f"{directory.DISTILLED}runs/teacher\n--gamma=0.9")
    with pytest.raises(UsageError, match="of a student, from which a training cannot go on"):
        directory.check_free(tmp_path)


def test_a_new_path_says_what_is_acted_in() -> None:
    path = directory.new_path("ALE/Pong:x-v5")
    assert path.parent == directory.RUNS, "the id's slash is no folder"
    assert path.name.startswith("ALE-Pong-x-v5-")


def test_those_who_want_one_folder_at_once_get_one_each(tmp_path: pathlib.Path) -> None:
    wanted = tmp_path / "runs" / "CartPole-v1-20260102-030405"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(directory.make_new, [wanted] * 40))
    names = [wanted.name, *(f"{wanted.name}-{number}" for number in range(2, 41))]
    assert sorted(path.name for path in made) == sorted(names)
    assert all(path.is_dir() for path in made)


def test_a_new_folder_that_cannot_be_made(tmp_path: pathlib.Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(UsageError, match=r"runs/new: cannot be written \(File exists\)$"):
        directory.make_new(tmp_path / "runs" / "new")


def test_a_flag_that_is_no_text_is_refused(tmp_path: pathlib.Path) -> None:
    directory.write_flags(tmp_path, "--gamma=0.9\n")
    with pytest.raises(UsageError) as caught:
        directory.write_flags(tmp_path, "--gamma=0.5\n--demonstrations=lat\udcff\n")
    assert str(caught.value) == (
        "--demonstrations=lat?: is not text in UTF-8, which flags.txt is: say another"
    )
    assert (tmp_path / directory.FLAGFILE).read_text() == "--gamma=0.9\n"
