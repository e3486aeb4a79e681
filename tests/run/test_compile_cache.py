"""Where compiled code is kept: which folder, who decides, how much, and that runs share it."""

import os
import pathlib
import resource

import numpy as np
import pytest
from support.compiled import DIRECTORY, begin_anew, folder_of
from support.processes import Processes
from support.states import newest

from ps_dqn.errors import UsageError
from ps_dqn.run import compile_cache


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A user with a home of their own and nothing set."""
    begin_anew(monkeypatch, tmp_path)


def test_the_folder_is_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    for environment, root in [
        ({}, tmp_path / ".cache" / "ps_dqn"),
        ({"XDG_CACHE_HOME": "relative"}, tmp_path / ".cache" / "ps_dqn"),
        ({"XDG_CACHE_HOME": str(tmp_path / "xdg")}, tmp_path / "xdg" / "ps_dqn"),
    ]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        found = pathlib.Path(folder_of("auto"))

        assert found.parent == root
        assert found.name.startswith("xla-")
        assert found.is_dir()


def test_a_named_folder_may_have_spaces_and_quotes(tmp_path: pathlib.Path) -> None:
    assert folder_of(f'{tmp_path}/a "b').startswith(f'{tmp_path}/a \\"b/xla-')


def test_unlike_machines_and_versions_have_folders_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    processors = tmp_path / "cpuinfo"
    processors.write_text("flags : avx2\ncpu MHz : 2000\n\nflags : avx2\ncpu MHz : 3000\n")
    monkeypatch.setattr(compile_cache, "CPUINFO", processors)
    monkeypatch.setattr(compile_cache, "num_cpus", lambda: 2)
    before = folder_of("auto")

    processors.write_text("flags : avx2\ncpu MHz : 2500\n\nflags : avx2\ncpu MHz : 2000\n")
    assert folder_of("auto") == before

    others = {before}
    processors.write_text("flags : avx2 avx512f\n")
    others.add(folder_of("auto"))
    monkeypatch.setattr(compile_cache, "num_cpus", lambda: 3)
    others.add(folder_of("auto"))
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99.0")
    others.add(folder_of("auto"))
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    others.add(folder_of("auto"))
    assert len(others) == 5


@pytest.mark.parametrize("given", [f"{DIRECTORY}/theirs", f"--x=1 {DIRECTORY}", "a_file_of_flags"])
def test_what_the_user_says_stays(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", given)
    for folder in ("auto", "", "/elsewhere"):
        compile_cache.use(folder)
        assert os.environ["TF_XLA_FLAGS"] == given


def test_other_flags_of_the_user_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_clustering_debug")

    compile_cache.use("auto")

    assert os.environ["TF_XLA_FLAGS"].startswith(f"--tf_xla_clustering_debug {DIRECTORY}")


def test_nothing_is_kept_where_nothing_can_be(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".cache").write_text("a file")

    assert folder_of("auto") == ""
    assert folder_of("") == ""
    with pytest.raises(UsageError, match=r"^--compile_cache=.*/x: cannot be written \(Not a dir"):
        folder_of(f"{tmp_path}/.cache/x")


def test_nothing_is_kept_where_there_is_no_room(tmp_path: pathlib.Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (compile_cache.ROOM - 1, hard))
    try:
        assert folder_of("auto") == ""
        with pytest.raises(UsageError, match=r"cannot be written \(File too large\)"):
            folder_of(str(tmp_path / "named"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert folder_of("auto")


def test_the_oldest_files_go(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(compile_cache, "MOST_FILES", 3)
    files = [tmp_path / f"xla-{n // 2}" / f"xla_compile_cache__{n}.pb" for n in range(6)]
    for age, file in enumerate(reversed(files)):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"code")
        os.utime(file, (1e9 - age, 1e9 - age))
    other = tmp_path / "xla-0" / "not TensorFlow's"
    other.write_bytes(b"")

    folder_of(str(tmp_path))

    assert [file.exists() for file in files] == [False, False, False, True, True, True]
    assert other.exists()


def test_others_may_remove_folders_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    going, empty = (tmp_path / name / "xla_compile_cache__1.pb" for name in ("xla-0", "xla-1"))
    for file in (going, empty):
        file.parent.mkdir()
        file.touch()
    scan = os.scandir

    def goes_first(path="."):
        if str(path) == str(going.parent) and going.exists():
            going.unlink()
            going.parent.rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", goes_first)
    folder_of(str(tmp_path))
    assert not going.exists()
    assert not empty.exists()


def test_empty_files_go(tmp_path: pathlib.Path) -> None:
    # TensorFlow fails with one: "Serialized cache key does not match".
    files = [pathlib.Path(folder_of("auto")) / f"xla_compile_cache__{n}.pb" for n in range(2)]
    files[0].write_bytes(b"")
    files[1].write_bytes(b"code")

    folder_of("auto")

    assert [file.exists() for file in files] == [False, True]


@pytest.mark.parametrize("said", ["auto", 'a "folder"', ""])
def test_tasks_that_are_started_later_keep_none_once_it_is_forgotten(
    tmp_path: pathlib.Path, said: str
) -> None:
    kept = folder_of(said if said in ("auto", "") else str(tmp_path / said))
    told = compile_cache.forget()
    assert bool(told) == bool(kept)
    assert told.items() <= os.environ.items()
    assert compile_cache.forget() == {}


@pytest.mark.parametrize("flags", ["", "--tf_xla_persistent_cache_directory=", "--other=1"])
def test_who_keeps_none_has_none_to_forget(monkeypatch: pytest.MonkeyPatch, flags: str) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", flags)
    assert compile_cache.forget() == {}
    assert os.environ["TF_XLA_FLAGS"] == flags


@pytest.mark.slow
def test_a_second_run_takes_what_the_first_compiled(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    def files_after(name: str, *flags: str) -> dict[str, int]:
        running = processes.start(
            *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path / name}", "--num_workers=1"),
            *("--total_env_steps=1500", "--eval_episodes=1", *flags),
            TF_XLA_FLAGS="",
        )
        assert running.ended() == 0, running.text
        found = tmp_path.glob(".cache/ps_dqn/xla-*/xla_compile_cache__*")
        return {path.name: path.stat().st_mtime_ns for path in found}

    first = files_after("first", "--seed=0")
    assert len(first) == 1
    assert len(list(tmp_path.glob(f".cache/ps_dqn/xla-*/{compile_cache.SEAL}*"))) == 1
    # A file that is written again has another time. Networks are made of more operations with some
    # seeds than with others, and closures of rounds are others.
    flags = ("--num_workers=2", "--num_ps=2", "--start_method=spawn", "--seed=1")
    assert files_after("second", *flags) == first

    # One that is damaged is compiled again, and is whole then.
    (file,) = tmp_path.glob(".cache/ps_dqn/xla-*/xla_compile_cache__*")
    code = file.read_bytes()
    file.write_bytes(code[: len(code) // 2] + bytes(len(code) - len(code) // 2))
    third = files_after("third", "--seed=2")
    assert third.keys() == first.keys()
    assert third != first
    assert files_after("fourth", "--seed=0") == third

    # What is read computes what was compiled.
    before, after = newest(tmp_path / "first"), newest(tmp_path / "fourth")
    assert before.counters == after.counters
    assert before.counters.updates > 100
    np.testing.assert_array_equal(after.online, before.online)
