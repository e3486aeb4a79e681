"""A worker that comes back comes in, whoever else is gone."""

import json
import pathlib
import sys

import pytest
from support.programs import SUPPORT, processes_that_mention, run_python


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_one_comes_back_while_another_is_gone_for_good(tmp_path: pathlib.Path) -> None:
    """TensorFlow would wait for the other one, whose closure had not failed yet."""
    ended = run_python([SUPPORT / "returning_worker.py", tmp_path], tmp_path, seconds=300)

    assert ended.returncode == 0, ended.stdout + ended.stderr[-12000:]
    seen = json.loads(ended.stdout)
    assert seen["present"] == [0, 2]
    assert seen["at_the_end"] == [0, 1, 2]
    assert processes_that_mention(str(tmp_path)) == []
