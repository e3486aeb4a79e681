"""Ctrl-C before the first task is started: what is said of it, and what is left."""

import pathlib
import signal
import subprocess

import pytest
from support.programs import run_python

INTERRUPTED = 128 + signal.SIGINT
CTRL_C = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


def ended_by_it(
    arguments: list[str], folder: pathlib.Path, line: str
) -> subprocess.CompletedProcess[str]:
    ended = run_python(arguments, folder)
    assert (ended.returncode, ended.stderr) == (INTERRUPTED, f"{line}\n")
    assert not (folder / "run").exists()
    return ended


def test_while_the_command_imports_its_own_code(tmp_path: pathlib.Path) -> None:
    # The first package of others that it needs.
    (tmp_path / "absl").mkdir()
    (tmp_path / "absl" / "__init__.py").write_text(CTRL_C)
    line = "Ctrl-C came before the command had begun: it has ended"
    assert ended_by_it(["-m", "ps_dqn", "train", "--run_dir=run"], tmp_path, line).stdout == ""


def test_while_the_environment_is_looked_at(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text(CTRL_C)
    arguments = ["-m", "ps_dqn", "train", "--env_module=mine", "--run_dir=run"]
    ended_by_it(arguments, tmp_path, "Ctrl-C came before the run had begun: no file was changed")


@pytest.mark.parametrize("is_new", [True, False])
def test_while_the_folder_is_made(tmp_path: pathlib.Path, is_new: bool) -> None:
    folder = tmp_path / "run"
    if not is_new:
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "flags.txt").write_text("--gamma=0.5\n")
    program = f"""
import sys
from ps_dqn.coordinator.__main__ import main
from ps_dqn.flags import command_line
from ps_dqn.run import provenance
def write(folder): {CTRL_C}
provenance.write = write
sys.argv = ["program", "--run_dir=run"]
command_line.run_main(main)
"""
    ended = run_python(["-c", program], tmp_path)
    assert ended.returncode == INTERRUPTED, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    if is_new:
        assert not folder.exists()
    else:
        assert (folder / "flags.txt").read_text() == "--gamma=0.5\n"


@pytest.mark.parametrize("has_trained", [False, True])
def test_while_a_run_that_is_gone_on_with_starts(tmp_path: pathlib.Path, has_trained: bool) -> None:
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "flags.txt").write_text("--gamma=0.5\n")
    (folder / "summary.json").write_text("{}")
    (folder / "metrics.csv").write_text("version\n")
    row = f"pathlib.Path({str(folder / 'metrics.csv')!r}).open('a').write('1\\n')"
    program = f"""
import pathlib, sys
from ps_dqn.coordinator import process
from ps_dqn.coordinator.__main__ import main
from ps_dqn.flags import command_line
def run(prepared):
    {row if has_trained else "pass"}
    {CTRL_C}
process.run = run
sys.argv = ["program", "--run_dir=run", "--gamma=0.75"]
command_line.run_main(main)
"""
    ended = run_python(["-c", program], tmp_path)
    assert ended.returncode == INTERRUPTED, ended.stdout + ended.stderr
    assert ("--gamma=0.75" in (folder / "flags.txt").read_text()) == has_trained
    assert (folder / "summary.json").exists() != has_trained
