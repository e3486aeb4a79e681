"""Modules that run in interpreters of their own."""

import json
import pathlib
import subprocess
import sys

import pytest
from support.programs import environment_of_python

from ps_dqn.cluster.process import interpreter

PROGRAM = """
import json, random, sys
print(json.dumps([__name__, sys.argv, sys.orig_argv, random.random() < 1]))
"""


@pytest.mark.parametrize("safe", ["", "1"])  # Python leaves the folder out by itself
def test_a_module_of_the_folder_is_found_and_is_in_nobodys_way(
    safe: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[1:])  # whoever runs the tests may do so by python -m
    (tmp_path / "mine.py").write_text(PROGRAM)
    (tmp_path / "random.py").write_text("raise AssertionError('imported')\n")
    environment = environment_of_python() | {"PYTHONSAFEPATH": safe}
    if safe:
        environment["PYTHONPATH"] += f":{tmp_path / 'elsewhere'}"
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "mine.py").rename(tmp_path / "elsewhere" / "mine.py")
    ran = subprocess.run(
        [*interpreter("mine"), "--flag", "x"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    name, argv, original, is_random = json.loads(ran.stdout)
    assert (name, argv[1:], is_random) == ("__main__", ["--flag", "x"], True)
    assert argv[0].endswith("mine.py")
    assert original == [sys.executable, "-m", "mine", "--flag", "x"]


def test_modules_are_looked_for_where_this_process_does(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of two of one name, the coordinator's and its tasks' is the same.
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "mine.py").write_text(f"print({folder.name!r})\n")
    monkeypatch.chdir(here)
    environment = environment_of_python()
    environment["PYTHONPATH"] += f":{there}"
    for first, found in ((str(here), "here"), (str(there), "there")):
        monkeypatch.setattr(sys, "path", [first, *sys.path])
        ran = subprocess.run(
            interpreter("mine"), env=environment, capture_output=True, text=True, check=False
        )
        assert ran.stdout == f"{found}\n", ran.stderr
