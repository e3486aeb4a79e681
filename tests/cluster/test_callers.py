"""A process that is asked to end when the program that started it is gone."""

import os
import signal
import subprocess
import sys

import pytest
from support.programs import ROOT

from ps_dqn.cluster import lifeline

PROGRAM = """
import fcntl, os, signal, sys, threading
from ps_dqn.cluster import lifeline
if sys.argv[1] == "another system":
    del fcntl.F_SETSIG
heard = []
signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
lifeline.stop_without_caller()
assert lifeline.OF_COORDINATOR not in os.environ
print(threading.active_count(), flush=True)
while not heard:
    threading.Event().wait(0.01)
threading.Event().wait(0.3)  # so that a second one would come in between
print(heard, flush=True)
"""


@pytest.mark.parametrize("system", ["linux", "another system"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_it_is_asked_once(system: str, is_gone: bool) -> None:
    if system == "linux" and sys.platform != "linux":
        pytest.skip("another system")
    held, ours = os.pipe()
    if is_gone:
        os.close(ours)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, system],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[held],
        env={**os.environ, "PYTHONPATH": str(ROOT), lifeline.OF_COORDINATOR: str(held)},
    ) as process:
        os.close(held)
        assert process.stdout is not None
        threads = process.stdout.readline()
        if not is_gone:
            # A process that forks must have one thread.
            assert int(threads) == (1 if system == "linux" else 2)
            os.close(ours)
        assert process.stdout.readline() == f"{[signal.SIGTERM.value]}\n"
        assert process.wait(30) == 0


def test_a_process_that_nobody_started_so_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(lifeline.OF_COORDINATOR, raising=False)
    lifeline.stop_without_caller()
