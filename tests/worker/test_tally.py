"""What a worker counts between two reports."""

import itertools

import pytest

from ps_dqn.telemetry.report import Report
from ps_dqn.worker import tally
from ps_dqn.worker.tally import Tally


def test_sums_and_maxima_begin_anew_after_each_report() -> None:
    counted = Tally()
    for staleness in (2, 5, 3):
        counted.add("pushes")
        counted.add("staleness", staleness)
        counted.maximum("staleness_max", staleness)
    counted.returns.extend([1.0, -2.0, 4.0])
    first, second = Report(**counted.take()), Report(**counted.take())
    assert (first.pushes, first.staleness, first.staleness_max) == (3, 10, 5)
    assert (first.episodes, first.return_sum) == (3, 3.0)
    assert (second.pushes, second.staleness, second.staleness_max) == (0, 0, 0)
    assert (second.episodes, second.return_sum) == (0, 0)
    assert first.refused == second.refused == 0, "what was never counted"


def test_a_phase_has_the_time_since_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.accumulate([100.0, 10.0, 1.0, 0.5, 2.0, 20.0, 0.25])
    monkeypatch.setattr(tally.time, "perf_counter", lambda: next(times))
    counted = Tally()
    counted.start_clock()
    assert [counted.lap(phase) for phase in ("pull", "acting", "pull")] == [1.0, 0.5, 2.0]
    counted.start_clock()
    assert counted.lap("push") == 0.25
    report = Report(**counted.take())
    assert (report.time_pull, report.time_acting, report.time_push) == (3.0, 0.5, 0.25)
    assert report.time_waiting == 0
