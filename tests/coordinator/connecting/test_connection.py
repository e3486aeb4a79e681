"""What a connection to a cluster's tasks stands, in a process of its own."""

import pathlib
import sys

import pytest
from support import warm
from support.programs import SUPPORT


@pytest.mark.skipif(sys.platform != "linux", reason="the local cluster of this test forks")
def test_closures_of_a_worker_do_not_wait_for_another_that_hangs(tmp_path: pathlib.Path) -> None:
    ended = warm.run_python([SUPPORT / "stopped_worker.py", tmp_path], tmp_path)
    shown = ended.stdout + ended.stderr
    assert ended.returncode == 0, shown
    # TensorFlow may say of the worker that it is gone, even within the line.
    assert shown.count("closures ended: 3") == 1, shown
