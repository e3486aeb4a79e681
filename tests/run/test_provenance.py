"""What a run was made with."""

import importlib.metadata
import pathlib
import platform
import subprocess
import sys

import pytest
from support.programs import ROOT

from ps_dqn import __version__
from ps_dqn.errors import UsageError
from ps_dqn.run import directory, provenance


def described(text: str) -> list[dict[str, str]]:
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return [dict(line.split(": ", 1) for line in block) for block in blocks]


def test_each_start_of_a_run_is_described(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "ps_dqn", "train", "--env_kwargs={} "])
    provenance.write(tmp_path)
    provenance.write(tmp_path)
    first, second = described((tmp_path / directory.ENVIRONMENT).read_text())
    assert first.keys() == second.keys()
    assert first["command"] == "python -m ps_dqn train '--env_kwargs={} '"
    assert first["ps-dqn"].startswith(__version__)
    assert first["python"] == platform.python_version()
    assert first["host"] == platform.node()
    for name in ("tensorflow", "keras", "numpy", "gymnasium"):
        assert first[name] == importlib.metadata.version(name)


def test_a_command_line_need_be_no_text(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "--run_dir=lat\udcff"])
    provenance.write(tmp_path)
    assert (
        b"command: python '--run_dir=lat\xff'\n" in (tmp_path / directory.ENVIRONMENT).read_bytes()
    )


def test_a_folder_that_cannot_be_written(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        provenance.write(tmp_path / "gone")


def git(folder: pathlib.Path, *words: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_git_s(tmp_path: pathlib.Path) -> None:
    assert provenance.commit_of(tmp_path) == ""
    assert provenance.commit_of(ROOT / "ps_dqn") == ""
    folder = tmp_path / "work"
    git(tmp_path, "init", "--quiet", "--initial-branch=some/branch", "work")
    assert provenance.commit_of(folder) == ""  # there is none yet
    git(folder, "commit", "--quiet", "--allow-empty", "--message=one")
    commit = git(folder, "rev-parse", "HEAD")
    assert provenance.commit_of(folder) == commit
    git(folder, "pack-refs", "--all")
    assert provenance.commit_of(folder) == commit
    git(folder, "worktree", "add", "--quiet", str(tmp_path / "other"), "-b", "other")
    assert provenance.commit_of(tmp_path / "other") == commit
    git(folder, "checkout", "--quiet", "--detach")
    assert provenance.commit_of(folder) == commit


def test_it_imports_nothing_slow_and_starts_nothing() -> None:
    program = (
        "import sys\n"
        "from ps_dqn.run import provenance\n"
        "started = []\n"
        "sys.addaudithook(lambda name, _: started.append(name) if name in (\n"
        "    'subprocess.Popen', 'os.system', 'os.fork', 'os.posix_spawn') else None)\n"
        "provenance.describe()\n"
        "slow = {'tensorflow', 'keras', 'numpy', 'gymnasium'} & sys.modules.keys()\n"
        "print(started, slow)\n"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout == "[] set()\n"
