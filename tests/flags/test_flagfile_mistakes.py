"""Flagfiles that cannot be read: one line each, by the name of the file, and at once."""

import os
import pathlib
import subprocess
import sys

import pytest
from absl import flags as absl_flags
from support.command_lines import parsed
from support.programs import environment_of_python

from ps_dqn.flags import command_line


@pytest.fixture
def refusal(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """What is said of a flagfile of this content, `mine.flags`."""
    monkeypatch.chdir(tmp_path)

    def call(content: bytes) -> str:
        pathlib.Path("mine.flags").write_bytes(content)
        with pytest.raises(absl_flags.Error) as caught:
            parsed("--flagfile=mine.flags")
        return str(caught.value)

    return call


@pytest.mark.parametrize("content", [b"\x80\x81", "--gamma=0.9\n".encode("utf-16")])
def test_no_text(refusal, content: bytes) -> None:
    assert refusal(content).startswith("--flagfile=mine.flags: is not text in UTF-8 (")


def test_too_large(refusal) -> None:
    content = b"--gamma=0.99\n".ljust(command_line.LARGEST_FLAGFILE + 1, b"#")
    assert refusal(content) == "--flagfile=mine.flags: is above 1,000,000 bytes"
    assert parsed_file(content[:-1])


@pytest.mark.parametrize("content", [b"", b"\n \n", b"# --gamma=0.9\n", b"// nothing\n"])
def test_no_flag(refusal, content: bytes) -> None:
    assert refusal(content) == "--flagfile=mine.flags: has no flag in it"


def test_includes_itself(refusal) -> None:
    assert refusal(b"--flagfile=mine.flags") == "--flagfile=mine.flags: includes itself"
    pathlib.Path("other.flags").write_text("--gamma=0.5\n--flagfile=mine.flags\n")
    assert refusal(b"# both\n--flagfile=other.flags") == "--flagfile=mine.flags: includes itself"


def test_includes_what_is_not_there(refusal) -> None:
    said = refusal(b"--flagfile=gone.flags")
    assert said == "--flagfile=gone.flags: cannot be read (No such file or directory)"


def test_no_file(tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in ("/dev/zero", tmp_path, pipe):
        with pytest.raises(absl_flags.Error, match=r"is not a file$"):
            parsed("--flagfile", str(path))


def test_twice_and_commented_out_is_well(tmp_path: pathlib.Path) -> None:
    (tmp_path / "deep.flags").write_text("--gamma=0.25\n")
    (tmp_path / "first.flags").write_text(f"--flagfile={tmp_path}/deep.flags\n# --flagfile=gone\n")
    words = [f"--flagfile={tmp_path}/{name}.flags" for name in ("first", "deep")]
    assert parsed(*words).gamma == 0.25


def test_its_text_is_utf_8_whatever_the_locale(tmp_path: pathlib.Path) -> None:
    deep = "# naïve\n--env_id=Größe-v1\n\n//\n--gamma=0.25"
    (tmp_path / "deep.flags").write_text(deep, encoding="utf-8", newline="\r\n")
    (tmp_path / "first.flags").write_text("--flagfile=deep.flags\n")
    program = (
        "from support.command_lines import parsed; found = parsed('--flagfile', 'first.flags'); "
        "print(ascii(found.env_id), found.gamma)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **environment_of_python(),
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("'Gr\\xf6\\xdfe-v1' 0.25\n", "")


def parsed_file(content: bytes) -> bool:
    """Whether a flagfile of this content, which says gamma's default, is read."""
    pathlib.Path("good.flags").write_bytes(content)
    return parsed("--flagfile=good.flags").gamma == parsed().gamma
