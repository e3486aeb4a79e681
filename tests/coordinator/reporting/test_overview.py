"""What is new to who watches a run."""

import math
import types
from typing import Any

import pytest
from support.reports import report

from ps_dqn.config import Config
from ps_dqn.coordinator.reporting.overview import Overview
from ps_dqn.state import Counters
from ps_dqn.telemetry.progress import Progress


def overview_of(config: Config) -> Overview:
    tasks: Any = types.SimpleNamespace(num_workers=1, pulses=None, workers_reporting=1)
    saving: Any = types.SimpleNamespace(best_return=0.0)
    observer: Any = types.SimpleNamespace(disk=types.SimpleNamespace(failures=0))
    return Overview(config, 1.0, 7, tasks, saving, observer)


def test_a_report_is_news_once_however_long_the_last_moments_are() -> None:
    overview = overview_of(Config())
    progress = Progress(Counters(0, 0, 0, 0, 0), 0.0)

    def is_news(now: float) -> bool:
        return overview.figures("training", progress, None, 0, now).is_news

    assert not is_news(1.0)
    for now in (2.0, 3.0):
        progress.add(report(worker=0, updates=64))
        assert is_news(now)
        assert not is_news(now + 0.5)


@pytest.mark.parametrize("updates", [0, 500], ids=["new", "resumed"])
def test_the_time_left_is_that_of_learning_not_of_filling_the_replay(updates: int) -> None:
    overview = overview_of(Config.from_values({"total_env_steps": 100_000}))
    progress = Progress(Counters(0, updates, 0, 0, 0), 0.0)

    def seconds_left(now: float) -> float:
        return overview.figures("training", progress, None, 0, now).seconds_left

    for now in (1.0, 2.0, 3.0, 4.0):
        progress.counters = progress.counters._replace(env_steps=1000 * now)
        assert math.isnan(seconds_left(now))
    for now in (5.0, 6.0, 7.0):
        env_steps, updates = 4000 + 100 * (now - 4), updates + 64
        progress.counters = progress.counters._replace(updates=updates, env_steps=env_steps)
        left = seconds_left(now)
    assert left == (100_000 - 4300) / 100
