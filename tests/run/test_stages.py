"""What takes long is spoken of, and nothing else is."""

import threading

import pytest

from ps_dqn.run import stages


def test_people_hear_of_what_takes_long_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "PATIENCE", 0.01)
    monkeypatch.setattr(stages, "REMINDER", 0.01)
    lines: list[str] = []
    enough = threading.Event()

    def say(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            enough.set()

    before = threading.active_count()
    with stages.stage("importing", say):
        assert enough.wait(60)
    assert threading.active_count() == before, "whoever forks has one thread"
    assert lines[:3] == ["importing", *["still importing, for 0 s by now"] * 2]


def test_what_is_quick_is_not_spoken_of() -> None:
    lines: list[str] = []
    with stages.stage("importing", lines.append):
        pass
    assert lines == []
