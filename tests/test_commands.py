"""The command `ps-dqn`: the same programs under one name, and what is said of mistakes."""

import importlib
import pathlib
import re
import stat
import subprocess
import sys
from collections.abc import Callable

import pytest
from support.command_lines import only_error
from support.programs import ROOT, run_python

from ps_dqn import __version__, commands
from ps_dqn.commands import PROGRAMS

WORDS = [each.word for each in PROGRAMS]
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Calls `ps-dqn` as it is installed."""
    folder = tmp_path_factory.mktemp("bin")
    match = re.search(r'^ps-dqn = "(.+):(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert match is not None
    script = folder / "ps-dqn"
    script.write_text(f"from {match[1]} import {match[2]}\n{match[2]}()\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return lambda *words, folder=folder: run_python([script, *words], folder)


def test_help_lists_every_command_once_with_one_line(call: Call) -> None:
    ran = call("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    shown = re.findall(r"^  (\w+) +(\S.*\.)$", ran.stdout, re.MULTILINE)
    assert sorted(shown) == sorted((each.word, each.summary) for each in PROGRAMS)
    titles = [line for line in ran.stdout.splitlines() if line in {p.group for p in PROGRAMS}]
    assert titles == list(dict.fromkeys(each.group for each in PROGRAMS))
    assert call().stdout == ran.stdout


def test_the_version_is_said(call: Call) -> None:
    assert call("--version").stdout == f"ps-dqn {__version__}\n"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.word)
def test_every_command_answers_by_its_own_name(
    program: commands.Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = importlib.import_module(commands.entry(program.module)).main
    monkeypatch.setattr(sys, "argv", [f"ps-dqn {program.word}", "--help"])
    assert main(sys.argv) == 0
    assert capsys.readouterr().out.startswith(f"ps-dqn {program.word} ")
    monkeypatch.setattr(sys, "argv", ["/some/where/ps_dqn/module.py", "--help"])
    assert main(sys.argv) == 0
    assert capsys.readouterr().out.startswith(f"python -m {program.module} ")


def test_a_command_is_its_module(call: Call) -> None:
    ran = call("train", "--gamma=2")
    assert ran.returncode == 2
    assert only_error(ran.stderr) == "--gamma=2.0: must be 1.0 or less"
    ran = call("launch")
    assert only_error(ran.stderr).startswith("say what to do: ps-dqn launch k8s --name=")
    assert call("export", "--help").stdout.startswith("ps-dqn export ")


def test_it_is_a_module_too(tmp_path: pathlib.Path) -> None:
    ran = run_python(["-m", "ps_dqn", "worker", "--help"], tmp_path)
    assert ran.stdout.startswith("python -m ps_dqn worker [--flag=value …]\n")
    ran = run_python(["-m", "ps_dqn", "wroker"], tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert only_error(ran.stderr) == (
        "python -m ps_dqn wroker: there is no such command; did you mean worker? "
        "python -m ps_dqn --help lists them"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["trian"],
            "ps-dqn trian: there is no such command; did you mean train? ps-dqn --help lists them",
        ),
        (["xyz"], "ps-dqn xyz: there is no such command; ps-dqn --help lists them"),
        (["--gamma=1"], "--gamma=1: say a command first, like ps-dqn train --gamma=1"),
    ],
)
def test_a_word_that_is_no_command_is_refused(call: Call, words: list[str], says: str) -> None:
    ran = call(*words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert only_error(ran.stderr) == says


def test_the_current_folder_may_be_deleted(tmp_path: pathlib.Path) -> None:
    program = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); "
        "from ps_dqn import commands; "
        "sys.argv = ['ps-dqn', *sys.argv[1:]]; commands.main()"
    )
    ran = run_python(["-c", program, "presets", "cartpole"], tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "--env_id=CartPole-v1" in ran.stdout
    for words in (["runs"], ["train", "--flagfile=gone.flags"], ["train", "--run_dir=run"]):
        ran = run_python(["-c", program, *words], tmp_path)
        assert (ran.returncode, ran.stdout) == (2, "")
        only_error(ran.stderr)


def test_a_reader_may_leave_before_the_end(tmp_path: pathlib.Path) -> None:
    command = f"{sys.executable} -m ps_dqn train --helpfull | head -1"
    ran = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert ran.stdout == "python -m ps_dqn train [--flag=value …]\n"
    assert ran.stderr == ""


SHADOWS = ("secrets", "random", "types", "queue", "numbers", "jax")
RUN = (
    *("--env_id=mine:Env", "--env_module=mine", "--num_workers=1", "--num_envs=4"),
    *("--hidden_sizes=8,8", "--jit_compile=none", "--min_replay_size=100", "--total_env_steps=800"),
    *("--eval_period=100000", "--eval_episodes=1", "--confirm_episodes=0", "--target_return=inf"),
)


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_modules_of_the_folder_it_is_called_in_come_last(
    call: Call, start_method: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Names of the standard library and of what NumPy and TensorFlow import; an environment too.
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text("raise AssertionError('imported')\n")
    (tmp_path / "mine.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\nclass Env(CartPoleEnv): ...\n"
    )
    ran = call("train", *RUN, f"--start_method={start_method}", "--run_dir=run", folder=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "run" / "summary.json").exists()
