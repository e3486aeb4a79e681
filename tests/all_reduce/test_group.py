"""TensorFlow's collectives among real processes: one dies, one stands still, one comes back."""

import json
import pathlib

from support import ring_of_processes, warm


def test_a_group_is_formed_anew_whatever_becomes_of_a_member(tmp_path: pathlib.Path) -> None:
    ended = warm.run_python([ring_of_processes.__file__], tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    # The sum of 1 + worker; and what a variable holds that is doubled each time, which outlives
    # every new group.
    assert found["all"] == [[6, 0], [6, 2], [6, 4]]
    assert found["one died"] == ["UnavailableError"] * 2
    assert found["noticed after"] < 20
    assert found["two are left"] == [[4, 0], [4, 8]]
    assert found["one is back"] == [[6, 0], [6, 2], [6, 16]]
    aborted = found["the first stands still"]
    assert len(aborted) == 2
    assert all(isinstance(each, str) for each in aborted), aborted
    assert found["without it"] == [[5, 4], [5, 32]]
    assert found["with it"] == [[6, 0], [6, 8], [6, 64]]
