"""What is new to who watches a run."""

import types
from typing import Any

from support.reports import report

from ps_dqn.config import Config
from ps_dqn.coordinator.reporting.overview import Overview
from ps_dqn.state import Counters
from ps_dqn.telemetry.progress import Progress


def test_a_report_is_news_once_however_long_the_last_moments_are() -> None:
    tasks: Any = types.SimpleNamespace(num_workers=1, pulses=None, workers_reporting=1)
    saving: Any = types.SimpleNamespace(best_return=0.0)
    observer: Any = types.SimpleNamespace(disk=types.SimpleNamespace(failures=0))
    overview = Overview(Config(), 1.0, 7, tasks, saving, observer)
    progress = Progress(Counters(0, 0, 0, 0, 0), 0.0)

    def is_news(now: float) -> bool:
        return overview.figures("training", progress, None, 0, now).is_news

    assert not is_news(1.0)
    for now in (2.0, 3.0):
        progress.add(report(worker=0, updates=64))
        assert is_news(now)
        assert not is_news(now + 0.5)
