"""What takes long is spoken of, and nothing else is."""

import threading

import pytest
from support import seen_by

from ps_dqn.run import stages


def test_people_hear_of_what_takes_long_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "PATIENCE", 0.01)
    monkeypatch.setattr(stages, "REMINDER", 0.01)
    # Seconds as they are told, whatever this machine takes.
    now = [100.0]
    seen_by.clock(monkeypatch, stages, monotonic=lambda: now[0])
    threads = seen_by.threads(monkeypatch, stages)
    lines: list[str] = []
    enough = threading.Event()

    def say(line: str) -> None:
        lines.append(line)
        now[0] += 10.0
        if len(lines) == 3:
            enough.set()

    with stages.stage("importing", say):
        assert enough.wait(60)
    [thread] = threads
    assert not thread.is_alive(), "whoever forks has one thread"
    assert lines[:3] == ["importing", *(f"still importing, for {s} s by now" for s in (10, 20))]


def test_what_is_quick_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "PATIENCE", 600.0)  # no machine is so slow
    lines: list[str] = []
    with stages.stage("importing", lines.append):
        pass
    assert lines == []
