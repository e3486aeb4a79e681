"""What a process and those that it started take."""

import os
import pathlib
import subprocess
import sys
import threading

import pytest
from support import seen_by

from ps_dqn.telemetry import memory

# Holds some memory of its own until its input ends, and says when it has it.
HOLDS = "held = b'x' * 50_000_000; print(flush=True); input()"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_process_has_started_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        assert memory.of_process(child.pid) > 50_000_000
        # This process's own memory comes and goes: so says, beside it, a table that does not.
        takes = {os.getpid(): 1, child.pid: 2}
        with monkeypatch.context() as patch:
            patch.setattr(memory, "of_process", lambda pid: takes.get(pid, 0))
            memory._reading.cache_clear()
            assert memory.used() == 3
            assert memory.used(alone=True) == 1, "a coordinator's tasks are not its"
        memory._reading.cache_clear()
        child.communicate(b"\n")
    assert memory.of_process(child.pid) == 0


def test_who_ends_while_looked_at_has_started_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    threads = tmp_path / "7/task"

    def ends_first(look):
        def scan(path="."):
            if str(path) == str(threads) and threads.exists():
                threads.rename(tmp_path / "ended")
            return look(path)

        return scan

    (threads / "7").mkdir(parents=True)
    (threads / "7/children").write_text("8 ")
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    assert list(memory.family(7)) == [7, 8]
    for each in ("scandir", "listdir"):
        monkeypatch.setattr(os, each, ends_first(getattr(os, each)))
    assert list(memory.family(7)) == [7]


def test_where_the_system_says_nothing_the_most_there_ever_was_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    memory._reading.cache_clear()
    assert memory.of_process(os.getpid()) == 0
    assert memory.used() > 1_000_000
    memory._reading.cache_clear()


def test_who_asks_does_not_wait_for_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = memory.Reading(os.getpid(), alone=True)
    first = reading.value()
    assert first > 1_000_000
    asked, answered = threading.Event(), threading.Event()

    def slow(pid: int) -> int:
        asked.set()
        assert answered.wait(60)
        return first + 1

    monkeypatch.setattr(memory, "of_process", slow)
    monkeypatch.setattr(memory, "PERIOD", 0.0)
    started = seen_by.threads(monkeypatch, memory)
    assert reading.value() == first, "what is known"
    assert asked.wait(60), "another reading has begun"
    assert reading.value() == first, "and is still under way: no second one begins"
    [thread] = started
    answered.set()
    thread.join(60)
    monkeypatch.setattr(memory, "PERIOD", float("inf"))
    assert reading.value() == first + 1
