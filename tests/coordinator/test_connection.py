"""What a connection to a cluster's tasks stands, in a process of its own."""

import pathlib
import sys

import pytest
from support.processes import Processes

SUPPORT = pathlib.Path(__file__).parents[1] / "support"


@pytest.mark.skipif(sys.platform != "linux", reason="the local cluster of this test forks")
def test_closures_of_a_worker_do_not_wait_for_another_that_hangs(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    script = SUPPORT / "stopped_worker.py"
    running = processes.start(str(script), str(tmp_path), PYTHONPATH=str(SUPPORT.parent))
    assert running.ended(120) == 0, running.text
    # TensorFlow may say of the worker that it is gone, even within the line.
    assert running.count("closures ended: 3") == 1, running.text
