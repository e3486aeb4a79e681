"""Compiled code that was damaged is not run: what a process that begins removes, and what stays."""

import os
import pathlib

import pytest
from support.compiled import DIRECTORY, begin_anew, folder_of

from ps_dqn.run import compile_cache


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A user with a home of their own and nothing set."""
    begin_anew(monkeypatch, tmp_path)


NAMES = [f"xla_compile_cache__{n}.pb" for n in range(2)]


def compiled_and_sealed(folder: pathlib.Path) -> list[pathlib.Path]:
    """Two files that a run of another day has compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(b"key" + bytes(range(100)) + b"code %d" % number)
        os.utime(folder / name, (1e9, 1e9))
    compile_cache.seal()
    return [folder / name for name in NAMES]


@pytest.mark.parametrize(
    "damaged",
    [
        lambda good, _: good[:50] + bytes([good[50] ^ 0x01]) + good[51:],
        lambda good, _: good[:-1],
        lambda good, _: b"",
        lambda good, _: bytes(len(good)),
        lambda good, _: good[:60] + bytes(len(good) - 60),
        lambda _, other: other,
    ],
    ids=["flipped", "cut", "empty", "zeros", "zeros at the end", "another's"],
)
def test_damaged_files_go(damaged, capfd: pytest.CaptureFixture[str]) -> None:
    folder = pathlib.Path(folder_of("auto"))
    file, other = compiled_and_sealed(folder)
    folder_of("auto")
    assert file.exists()
    assert capfd.readouterr().err == ""

    file.write_bytes(damaged(file.read_bytes(), other.read_bytes()))
    compile_cache.seal()  # by a run that goes on meanwhile
    folder_of("auto")

    assert [path.name for path in folder.iterdir() if "__0" in path.name] == []
    assert other.exists()
    told = f"compiled code in {folder} does not fit its checksums (files: 1)"
    assert capfd.readouterr().err.startswith(told)


def test_a_file_with_the_seal_of_another_goes() -> None:
    folder = pathlib.Path(folder_of("auto"))
    file, other = compiled_and_sealed(folder)
    for kept in (file, folder / f"{compile_cache.SEAL}{file.name}"):
        kept.write_bytes(kept.with_name(kept.name.replace("__0", "__1")).read_bytes())

    folder_of("auto")

    assert [file.exists(), other.exists()] == [False, True]


def test_a_file_without_a_seal_stays_while_it_may_get_one(
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = pathlib.Path(folder_of("auto"))
    fresh, old = (folder / name for name in NAMES)
    for file in (fresh, old):
        file.write_bytes(b"code")
    os.utime(old, (1e9, 1e9))

    folder_of("auto")

    assert [fresh.exists(), old.exists()] == [True, False]
    assert capfd.readouterr().err == "", "its process was killed, and that is no news"


def test_what_two_processes_compile_at_once_has_the_seal_of_the_last() -> None:
    folder = pathlib.Path(folder_of("auto"))
    file, _ = compiled_and_sealed(folder)
    again = folder / "again"
    again.write_bytes(b"the same program in other bytes")
    again.rename(file)

    compile_cache.seal()
    folder_of("auto")

    assert file.read_bytes() == b"the same program in other bytes"


def test_a_folder_that_is_copied_keeps_its_seals(tmp_path: pathlib.Path) -> None:
    folder = pathlib.Path(folder_of("auto"))
    compiled_and_sealed(folder)
    copy = pathlib.Path(folder_of(str(tmp_path / "copy")))
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
        os.utime(copy / file.name, (1e9, 1e9))

    folder_of(str(tmp_path / "copy"))

    assert len(list(copy.glob("xla_*"))) == 2


def test_nothing_is_sealed_that_is_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    theirs = tmp_path / "theirs"
    monkeypatch.setenv("TF_XLA_FLAGS", f"{DIRECTORY}{theirs}")
    monkeypatch.chdir(tmp_path)
    compile_cache.use("auto")
    for files in (compiled_and_sealed(theirs), compiled_and_sealed(tmp_path)):
        assert sorted(files[0].parent.glob("*.pb")) == files
        assert not list(files[0].parent.glob(f"{compile_cache.SEAL}*"))


def test_code_that_cannot_be_removed_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = compiled_and_sealed(pathlib.Path(folder_of("auto")))
    file.write_bytes(b"damaged")

    def refuses(*_, **__) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "unlink", refuses)
    assert folder_of("auto") == ""
