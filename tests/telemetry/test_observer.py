"""Who watches a run is shown what is new, and told where nothing is."""

import dataclasses
from typing import Any

import pytest
from support import seen_by

from ps_dqn.config import Config
from ps_dqn.telemetry import observer as observing
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.observer import QUIET_SECONDS, Observer


class Display:
    """Remembers what it is given."""

    interval = 5.0

    def __init__(self) -> None:
        self.shown, self.lines = 0, list[str]()

    def show(self, figures: RunFigures) -> None:
        self.shown += 1

    def say(self, line: str) -> None:
        self.lines.append(line)


class Nobody:
    """Takes whatever it is told."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_whoever_hears_nothing_for_long_is_told_so_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    seen_by.clock(monkeypatch, observing, monotonic=lambda: now[0])
    display = Display()
    observer = Observer(Nobody(), display, Nobody(), Nobody())  # type: ignore[arg-type]
    quiet = RunFigures.planned(Config(), 1)
    news = dataclasses.replace(quiet, is_news=True)

    def wait(seconds: int) -> int:
        before = len(display.lines)
        for _ in range(seconds):
            now[0] += 1
            observer.show(quiet)
        return len(display.lines) - before

    assert wait(int(QUIET_SECONDS)) == 0
    assert wait(1) == 1
    assert display.lines == ["no worker has reported for 16 s: what they are at takes longer"]
    assert [wait(15), wait(30), wait(60)] == [1, 1, 1]
    observer.show(news)
    assert display.shown == 1
    assert [wait(15), wait(1)] == [0, 1]
