"""What is said of paths that cannot be looked at, by every program that is given one."""

import contextlib
import importlib
import os
import pathlib
from collections.abc import Iterator

import pytest
from support.command_lines import only_error
from support.made_runs import make

import ps_dqn
from ps_dqn import commands
from ps_dqn.errors import FolderError, UsageError
from ps_dqn.run import directory, paths

LONG = "x" * 300
NOBODYS = "~nobody-has-this-name/x"
IS_LONG = "cannot be looked at (File name too long)"
IS_NOBODYS = "is no path (Could not determine home directory)"
# Of all programs that are given a path, the words before it; and what says which one it is.
TAKING = (
    *(("train", "--run_dir="), ("train", "--flagfile="), ("evaluate", "--run_dir=")),
    *(("evaluate", "--follow --run_dir="), ("watch", "--run_dir="), ("export", "--run_dir=")),
    *(("distill", "--run_dir="), ("runs", ""), ("plot", ""), ("doctor", "")),
    *(("sweep", "--output="), ("demonstrations", "--output=x.npz --input=")),
)


@contextlib.contextmanager
def forbidden(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder that another user keeps to themselves; root may look everywhere."""
    real = os.stat

    def stat(path, **options):
        inside = isinstance(path, str | os.PathLike) and os.fspath(path) != str(folder)
        if inside and str(folder) in os.path.abspath(os.path.dirname(path)):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        yield


@pytest.mark.parametrize(("path", "why"), [(LONG, IS_LONG), (NOBODYS, IS_NOBODYS)])
@pytest.mark.parametrize(("word", "before"), TAKING)
def test_a_path_that_there_cannot_be_is_refused_in_one_line(
    word: str,
    before: str,
    path: str,
    why: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    module = next(each.module for each in commands.PROGRAMS if each.word == word)
    program = importlib.import_module(commands.entry(module))
    with pytest.raises(SystemExit) as left:
        program.main([f"ps-dqn {word}", *f"{before}{path}".split()])
    assert left.value.code == 2
    said = only_error(capsys.readouterr().err)
    assert said == f"{before.split()[-1] if before else ''}{path}: {why}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("path", "why"), [(LONG, IS_LONG), (NOBODYS, IS_NOBODYS)])
def test_so_it_is_in_python(path: str, why: str) -> None:
    calls = (
        lambda: ps_dqn.train(run_dir=path),
        lambda: ps_dqn.load(path),
        lambda: ps_dqn.Run(path),
    )
    for call in calls:
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == f"run_dir={path}: {why}"


def test_a_null_character_is_in_no_path() -> None:
    with pytest.raises(UsageError, match=r"^'run_dir=a\\x00b': is no path \(it holds a "):
        paths.named("run_dir", "a\0b")


def test_what_another_user_keeps_to_themselves(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(tmp_path / "theirs" / "run")
    with forbidden(run, monkeypatch), pytest.raises(FolderError) as caught:
        paths.named("--run_dir", str(run))
    assert str(caught.value) == f"--run_dir={run}: cannot be looked at (Permission denied)"
    with forbidden(run.parent, monkeypatch):
        for look in (
            lambda: paths.named("--run_dir", run),
            lambda: directory.check_free(run),
            lambda: directory.is_new(run),
        ):
            with pytest.raises(FolderError) as caught:
                look()
            assert str(caught.value) == f"--run_dir={run}: cannot be looked at (Permission denied)"


def test_what_is_not_there_and_what_is_a_file_are_paths(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "gone/deep", "file/below"):
        assert paths.named("--run_dir", tmp_path / name) == tmp_path / name
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.named("--run_dir", "~/run") == tmp_path / "run"
