"""Commands whose standard streams are closed, full or of an encoding that lacks letters."""

import os
import pathlib
import subprocess
import sys

import pytest
from support.command_lines import only_error
from support.programs import ROOT, inherited_environment

ANSWERS = ("--help", "--version", "presets", "train --help=all", "completion bash")
# In these, Python's own streams are strict.
ASCII = (
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ":strict"},
)


def shell(
    command: str, folder: pathlib.Path, *descriptors: int, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What a shell does with a command that calls `ps-dqn`."""
    call = f'ps-dqn() {{ "{sys.executable}" -m ps_dqn "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", call],
        capture_output=True,
        text=True,
        cwd=folder,
        pass_fds=descriptors,
        env={**inherited_environment(), "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )


@pytest.mark.parametrize("environment", ASCII, ids=("Python", "locale"))
@pytest.mark.parametrize("words", ANSWERS)
def test_letters_that_an_encoding_lacks_are_replaced(
    tmp_path: pathlib.Path, words: str, environment: dict[str, str]
) -> None:
    said = shell(f"ps-dqn {words}", tmp_path, **environment)
    assert (said.returncode, said.stderr) == (0, "")
    expected = shell(f"ps-dqn {words}", tmp_path, PYTHONIOENCODING="utf-8")
    assert said.stdout == expected.stdout.encode("ascii", "replace").decode()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_may_be_closed(tmp_path: pathlib.Path, closed: str) -> None:
    for words, code in {"presets": 0, "--help": 0, "train --gamma=2": 2, "trian": 2}.items():
        said = shell(f"ps-dqn {words} {closed}", tmp_path)
        assert said.returncode == code
        assert "Traceback" not in said.stderr
        if code == 2 and "2>" not in closed:
            only_error(said.stderr)


def test_what_a_command_starts_has_all_streams(tmp_path: pathlib.Path) -> None:
    # Whatever was opened next would get the number of the one that is missing.
    program = (
        "import os, subprocess, sys; from ps_dqn.flags import command_line; "
        "look = 'import os; [os.fstat(each) for each in range(3)]'; "
        "command_line.run_main(lambda _: subprocess.run([sys.executable, '-c', look]).returncode)"
    )
    command = f'"{sys.executable}" -c "{program}" <&- >&- 2>&-'
    assert shell(command, tmp_path).returncode == 0


@pytest.mark.parametrize("words", ANSWERS)
def test_an_output_that_is_full_is_told_of_in_one_line(tmp_path: pathlib.Path, words: str) -> None:
    for environment in ({}, {"PYTHONUNBUFFERED": "1"}):
        said = shell(f"ps-dqn {words} >/dev/full", tmp_path, **environment)
        assert said.returncode == 1
        assert only_error(said.stderr) == (
            "standard output: cannot be written (No space left on device)"
        )


@pytest.mark.parametrize("words", ANSWERS)
def test_a_reader_may_leave_at_once(tmp_path: pathlib.Path, words: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    said = shell(f"ps-dqn {words} >&{writer}", tmp_path, writer)
    os.close(writer)
    assert (said.returncode, said.stderr) == (0, "")
