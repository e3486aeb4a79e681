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
    safe: str, tmp_path: pathlib.Path
) -> None:
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
