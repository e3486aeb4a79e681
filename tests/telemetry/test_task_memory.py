"""What a process and those that it started take."""

import os
import subprocess
import sys

import pytest

from ps_dqn.telemetry import memory

# Holds some memory of its own until its input ends, and says when it has it.
HOLDS = "held = b'x' * 50_000_000; print(flush=True); input()"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_process_has_started_counts() -> None:
    memory._used.cache_clear()
    before = memory.used()
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        memory._used.cache_clear()
        assert memory.of_process(child.pid) > 50_000_000
        assert memory.used() > before + 40_000_000
        assert memory.used(alone=True) < before + 40_000_000, "a coordinator's tasks are not its"
        child.communicate(b"\n")
    assert memory.of_process(child.pid) == 0


def test_where_the_system_says_nothing_the_most_there_ever_was_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    memory._used.cache_clear()
    assert memory.of_process(os.getpid()) == 0
    assert memory.used() > 1_000_000
    memory._used.cache_clear()
