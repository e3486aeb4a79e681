"""What a run measures: from reports to the rows of metrics.csv."""

import math

import numpy as np
import pytest
from support.reports import report

from ps_dqn.config.faults import ENV_FAILURES
from ps_dqn.state import Counters
from ps_dqn.telemetry import metrics
from ps_dqn.telemetry.metrics import PHASES
from ps_dqn.telemetry.progress import Interval, Progress, evaluation_row


def test_interval_arithmetic() -> None:
    interval = Interval(started=3.0)
    nothing = interval.values(now=5.0)
    assert nothing["push/applied"] == nothing["rate/updates_per_second"] == 0
    assert math.isnan(nothing["train/td_loss"])
    assert math.isnan(nothing["wire/pull_ms_max"])
    interval.ledger.add(report(updates=3, measured=2, td_loss=3.0, pull_max=0.5))
    interval.ledger.add(report(updates=6, measured=6, td_loss=1.0, pull_max=0.25))
    values = interval.values(now=5.0)
    assert values["rate/updates_per_second"] == 9 / 2.0
    assert values["wire/pull_ms_max"] == 500.0
    # Weighted by updates that were not skipped, not the mean of the reports' means 1.5 and 1/6.
    assert values["train/td_loss"] == 0.5
    assert math.isnan(values["train/episode_return"])


def of_run(counters: Counters) -> dict[str, int]:
    return {f"run_{name}": count for name, count in counters._asdict().items()}


def test_progress_is_where_the_newest_report_was() -> None:
    progress = Progress(Counters(100, 6400, 51200, 7, 3200))
    newest = Counters(103, 6592, 52724, 10, 3296)
    progress.add(report(worker=0, **of_run(newest), updates=128, time_pull=0.5))
    # Heard of later, although its last push was earlier.
    earlier = Counters(102, 6528, 52212, 9, 3264)
    progress.add(report(worker=1, **of_run(earlier), updates=64, time_pull=0.25))
    assert progress.counters == newest
    assert all(type(count) is int for count in progress.counters)
    rows = progress.session.ledger.rows()
    assert [rows[worker]["updates_made"] for worker in (0, 1)] == [128, 64]
    assert [rows[worker]["time_pull"] for worker in (0, 1)] == [0.5, 0.25]


def test_train_row() -> None:
    progress = Progress(Counters(0, 0, 0, 0, 0))
    # Before the interval: counts for what is of the whole run.
    progress.add(report(worker=0, bytes_pulled=1000, bytes_pushed=100, replay_size=1))
    progress.interval = Interval(started=10.0)
    made = [
        report(
            worker=0, pushes=1, updates=4, measured=2, env_steps=32, episodes=2, return_sum=30.0,
            td_loss=2.0, q_values=8.0, grad_norm=6.0, entropy=3.0, staleness=1, staleness_max=1,
            epsilon=0.5, replay_size=100, bytes_pulled=320, bytes_pushed=160, time_acting=0.5,
            time_pull=0.25, time_push=0.5, pull_max=0.25, push_max=0.5, pull_took=0.5,
            push_took=0.75, loss_scale=64, skipped_updates=2, sparsity=0.5, inferences=2,
            inferred=12, answers=4, answer_took=0.01, answer_max=0.005, actors=3,
        ),
        report(
            worker=1, pushes=3, refused=1, updates=12, measured=6, env_steps=96, episodes=1,
            return_sum=3.0, td_loss=6.0, q_values=8.0, grad_norm=2.0, staleness=6, staleness_max=4,
            epsilon=0.1, withheld_outliers=2, withheld_not_finite=1, returns_outside=1,
            replay_size=40, bytes_pulled=480, bytes_pushed=320, time_acting=1.5, time_pull=0.75,
            time_push=1.5, time_waiting=100.0, pull_max=0.125, push_max=1.25, pull_took=0.75,
            push_took=2.0, env_raised=2, loss_scale=16, skipped_updates=1, sparsity=0.75,
            inferences=1, inferred=3, answers=1, answer_took=0.01, answer_max=0.01, actors=1,
        ),
        # The same worker again: its replay's size replaces the one before. It has not pulled.
        report(worker=1, epsilon=math.nan, replay_size=60, loss_scale=16, sparsity=0.75),
    ]  # fmt: skip
    for each in made:
        progress.add(each)
    row = progress.train_row(now=14.0, balance=1.25)
    # Seconds an update, waiting left out: 1.25/4 and 3.75/12 are 0.3125 both.
    times = {"acting": 2.0, "pull": 1.0, "push": 2.0, "waiting": 100.0}
    expected = {
        "seconds": 14.0,
        "train/episode_return": 33.0 / 3,
        "train/td_loss": 8.0 / 8,
        "train/q_values": 16.0 / 8,
        "train/grad_norm": 8.0 / 8,
        "train/entropy": 3.0 / 8,
        "train/loss_scale": 32.0,
        "train/sparsity": 2 / 3,
        "train/skipped_updates": 3.0,
        "train/returns_outside_atoms": 1 / 3,
        "train/staleness": 7.0 / 5,  # of decided pushes: 4 applied, 1 refused
        "train/staleness_max": 4.0,
        "train/epsilon": 0.3,
        "replay/size": 160.0,
        "inference/batch_size": 15 / 3,
        "inference/latency_ms": 20 / 5,
        "inference/latency_ms_max": 10.0,
        "inference/per_second": 3 / 4.0,
        "inference/actors": 4 / 3,
        "rate/env_steps_per_second": 128 / 4.0,
        "rate/updates_per_second": 16 / 4.0,
        "push/applied": 4.0,
        "push/refused": 1.0,
        "push/withheld": 3.0,
        "push/collected": 0.0,
        "wire/bytes_pulled": 1800.0,
        "wire/bytes_pushed": 580.0,
        "wire/bytes_pulled_per_update": 800 / 16,
        "wire/bytes_pushed_per_update": 480 / 16,
        "memory/workers": 0.0,
        "wire/pull_ms": 1000 * 1.25 / 8,  # 8 exchanges, withheld ones among them
        "wire/pull_ms_max": 250.0,
        "wire/push_ms": 1000 * 2.75 / 8,
        "wire/push_ms_max": 1250.0,
        "wire/shard_balance": 1.25,
        "workers/slowest": 1.0,
        "workers/failed_writes": 0.0,
        **{f"env_failures/{kind}": 2.0 * (kind == "raised") for kind in ENV_FAILURES},
        **{f"time/{phase}": times.get(phase, 0.0) for phase in PHASES},
    }
    assert row == pytest.approx(expected)
    elsewhere = ("eval/", "replay/adds", "replay/samples", "replay/bytes")  # of who else says it
    others = {name for name in metrics.columns() if name.startswith(elsewhere)}
    assert set(row) | others == set(metrics.columns())


def test_the_slowest_worker_is_seen_against_the_median() -> None:
    progress = Progress(Counters(0, 0, 0, 0, 0))
    for worker, seconds in enumerate((1.0, 2.0, 6.0)):
        progress.add(report(worker=worker, updates=10, time_gradient=seconds, time_waiting=50.0))
    row = progress.train_row(1.0, balance=1.0)
    assert row["workers/slowest"] == pytest.approx(3.0)


def test_a_worker_without_an_update_does_not_hide_the_slowest() -> None:
    progress = Progress(Counters(0, 0, 0, 0, 0))
    progress.add(report(worker=0))
    progress.add(report(worker=1, updates=10, time_gradient=2.0))
    assert progress.train_row(1.0, balance=1.0)["workers/slowest"] == 1.0


def test_what_is_not_measured_lately_is_what_was_before() -> None:
    progress = Progress(Counters(0, 0, 0, 0, 0))
    assert math.isnan(progress.recent_values(1.0)["train/episode_return"])
    progress.add(report(episodes=2, return_sum=9.0, updates=4))
    assert progress.recent_values(2.0)["train/episode_return"] == 4.5
    progress.recent = Interval(2.0)
    progress.add(report(updates=1))
    recent = progress.recent_values(4.0)
    assert recent["train/episode_return"] == 4.5
    assert recent["rate/updates_per_second"] == 0.5


def test_an_interval_of_no_length_has_finite_rates() -> None:
    progress = Progress(Counters(0, 0, 0, 0, 0), now=5.0)
    progress.add(report(env_steps=8))
    assert math.isfinite(progress.train_row(5.0, 1.0)["rate/env_steps_per_second"])


def test_evaluation_row() -> None:
    row = evaluation_row(np.array([1.0, 2.0, 6.0]), 9.0)
    assert row == {
        "seconds": 9.0,
        "eval/episode_return": 3.0,
        "eval/episode_return_min": 1.0,
        "eval/episode_return_max": 6.0,
    }
    assert set(row) <= set(metrics.columns())
