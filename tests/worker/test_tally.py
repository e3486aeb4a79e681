"""What a worker counts between two reports."""

import itertools
import types
from collections.abc import Iterable

import pytest

from ps_dqn.telemetry.report import Report
from ps_dqn.worker import tally
from ps_dqn.worker.tally import Tally


def says(monkeypatch: pytest.MonkeyPatch, times: Iterable[float]) -> None:
    """Makes these the times of the tally alone: other threads of the process ask for theirs."""
    clock = types.SimpleNamespace(perf_counter=iter(times).__next__)
    monkeypatch.setattr(tally, "time", clock)


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


def test_of_what_goes_on_beside_only_the_wait_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, [99.0, 100.0, 101.0, 102.0, 106.0, 107.0, 108.5, 110.0, 111.0])
    counted = Tally()
    counted.start_clock(then="pull")
    counted.lap("sampling", then="acting")
    # One second, and all of it hidden behind the environment.
    counted.lap_beside("gradient", then="push")
    assert counted.now == ("push", 102.0)
    assert counted.lap("environment", then="acting") == 5.0
    counted.exchanged("push", then="acting")
    counted.lap_beside("waiting", then="acting")
    counted.exchanged("pull", then="acting")
    counted.join()
    assert counted.lap("acting", then="acting") == 1.0
    report = Report(**counted.take())
    # The push took 5 s, of which the worker waited for one.
    assert (report.time_push, report.push_took, report.push_max) == (1.0, 5.0, 5.0)
    assert (report.time_pull, report.pull_took, report.pull_max) == (1.5, 1.5, 1.5)
    assert (report.time_gradient, report.time_waiting, report.time_environment) == (0, 1.5, 5.0)
    assert (report.time_sampling, report.time_acting) == (1.0, 1.0), "nothing is lost"


def test_a_phase_has_the_time_since_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, itertools.accumulate([100.0, 10.0, 1.0, 0.5, 2.0, 20.0, 0.25]))
    counted = Tally()
    counted.start_clock(then="pull")
    laps = [counted.lap(phase, then="acting") for phase in ("pull", "acting", "pull")]
    assert laps == [1.0, 0.5, 2.0]
    counted.start_clock(then="pull")
    assert counted.lap("push", then="acting") == 0.25
    report = Report(**counted.take())
    assert (report.time_pull, report.time_acting, report.time_push) == (3.0, 0.5, 0.25)
    assert report.time_waiting == 0
