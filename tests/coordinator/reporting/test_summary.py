"""The summary of a run and the tables at its end."""

import dataclasses
import io
import json
import math
import pathlib
from typing import Any

import pytest
from rich.console import Console
from support.reports import report

from ps_dqn.cluster.spec import Task
from ps_dqn.config import Config
from ps_dqn.config.faults import ENV_FAILURES
from ps_dqn.coordinator.keeping.history import History
from ps_dqn.coordinator.reporting.result import Result
from ps_dqn.coordinator.reporting.summary import MOST_WORKERS, show, summarize
from ps_dqn.coordinator.supervision.task_failures import LOST, SILENT, TaskFailures
from ps_dqn.run import directory
from ps_dqn.state import Counters
from ps_dqn.telemetry.ledger import WorkerLedger
from ps_dqn.telemetry.metrics import PHASES


def make_result(num_workers: int) -> Result:
    reports = [
        report(
            memory=200e6,
            worker=worker, updates=10, env_steps=100, pushes=4, refused=1, withheld_outliers=2,
            staleness=10, staleness_max=7, bytes_pulled=2500, bytes_pushed=3_000_000,
            time_gradient=1.0 + worker, pull_took=0.7, time_pull=0.7, time_waiting=3.0,
        )
        for worker in range(num_workers)
    ]  # fmt: skip
    server = {
        "pulls": 70, "pushes": 60, "bytes_out": 4200, "bytes_in": 900, "duplicates": 1,
        "seconds": 0.25, "kinds": {"0": {"applied": 4}}, "staleness": {"0": [3, 1]},
    }  # fmt: skip
    return Result(
        reason="finished",
        errors=[],
        seconds=20.0,
        counters=Counters(8, 80, 1000, 3, 40),
        evaluation=None,
        best_return=-math.inf,
        workers=WorkerLedger(reports).rows(),
        servers=[server, server | {"pulls": 71}],
        replay_servers=[],
    )


def test_the_summary_has_every_worker_and_every_server(tmp_path: pathlib.Path) -> None:
    result, history = make_result(2), History(start_seconds=2.5)
    summary = summarize(Config(), result, history, total_seconds=24.0)
    assert summary["env_steps_per_second"] == 50.0
    assert summary["updates_per_second"] == 4.0
    assert summary["worker_seconds"]["gradient"] == 1.0 + 2.0
    assert summary["worker_seconds"]["waiting"] == 6.0
    assert set(summary["worker_seconds"]) == set(PHASES)
    directory.write_summary(tmp_path, summary)
    written = json.loads((tmp_path / directory.SUMMARY).read_text())
    assert (written["version"], written["updates"]) == (8, 80)
    assert written["eval_return"] is None, "JSON has no NaN"
    assert list(written["workers"]) == ["0", "1"]
    assert written["workers"]["1"] == pytest.approx(
        {
            "updates_made": 10, "env_steps_made": 100, "pushes_applied": 4, "pushes_refused": 1,
            "pushes_withheld": 2, "pushes_collected": 0, "staleness": 2.0, "staleness_max": 7,
            "bytes_pulled": 2500,
            "bytes_pushed": 3_000_000, "pull_ms": 100.0, "push_ms": 0.0,
            "updates_skipped": 0.0, "failed_writes": 0.0,
            "slowness": 2.7 / ((1.7 + 2.7) / 2), "memory": 200e6,
            **{f"env_{kind}": 0.0 for kind in ENV_FAILURES},
            **{f"time_{phase}": 0.0 for phase in PHASES},
            "time_gradient": 2.0, "time_pull": 0.7, "time_waiting": 3.0,
            **{f"inference_{of}": None for of in ("batch_size", "latency_ms", "actors")},
            "inference_latency_ms_max": None,
        }
    )  # fmt: skip
    assert written["parameter_servers"] == result.servers


def shown(result: Result, **happened: Any) -> list[list[str]]:
    """The words of each line that is printed at the end of a run."""
    history = History(start_seconds=2.5, **happened)
    return lines_of(summarize(Config(), result, history, total_seconds=24.0))


def test_updates_that_were_skipped_are_said_where_there_may_be_some() -> None:
    result, history = make_result(2), History(start_seconds=2.5)
    result.workers[1]["updates_skipped"] = 1234.0
    half = Config.from_values({"precision": "float16"})
    said = ["skipped", "1,234", "updates,", "which", "overflowed", "float16"]
    assert said in lines_of(summarize(half, result, history, 24.0))
    assert said not in lines_of(summarize(Config(), result, history, 24.0))


def lines_of(summary: dict[str, Any]) -> list[list[str]]:
    """The words of each line of the tables."""
    text = io.StringIO()
    show(Console(file=text, width=200), summary, pathlib.Path("runs/x"))
    table = str.maketrans(dict.fromkeys("│┃┏┓┗┛━┳┻┡┩╇├┤─┼└┘┴", " "))
    return [line.translate(table).split() for line in text.getvalue().splitlines()]


def test_the_tables_say_what_each_worker_and_server_did() -> None:
    lines = shown(make_result(2))
    [worker] = [line for line in lines if line[:1] == ["1"] and "≤" in line]
    # 4 pushes were applied; 1 was refused and 2 were withheld.
    assert " ".join(worker) == "1 10 4 3 2.0 ≤ 7 2 kB 3 MB 100.0 + 0.0 1.23 200 MB"
    servers = lines[lines.index(["Parameter", "servers"]) :]
    [second] = [line for line in servers if line[:1] == ["1"]]
    assert " ".join(second) == "1 71 60 1 4 kB 900 B 0.2 s"
    assert ["everything", "is", "in", "runs/x"] in lines


@pytest.mark.parametrize(
    ("episodes", "said"), [(None, " over 40 further episodes"), (0, "")], ids=str
)
def test_the_best_is_shown_with_what_has_confirmed_it(episodes: int | None, said: str) -> None:
    config = Config.from_values({"confirm_episodes": episodes})
    result = dataclasses.replace(make_result(1), best_return=488.25)
    summary = summarize(config, result, History(start_seconds=2.5), total_seconds=24.0)
    assert f"best evaluation 488.2{said}" in {" ".join(line) for line in lines_of(summary)}
    assert not any("further" in line for line in shown(make_result(1)))


def test_recoveries_are_shown_where_there_were_some() -> None:
    assert not any(line[:1] == ["recoveries"] for line in shown(make_result(1)))
    lines = shown(make_result(1), recoveries=2, pushes_again=1300, recovery_seconds=5.5)
    [line] = [line for line in lines if line[:1] == ["recoveries"]]
    assert " ".join(line) == "recoveries 2 in 5.5 s, 1,300 pushes made again, none lost"


def test_failures_of_tasks_are_shown_where_there_were_some() -> None:
    assert not any(line[:1] == ["failures"] for line in shown(make_result(1)))
    seconds = iter([10.0, 11.0, 13.0])
    failures = TaskFailures(lambda: next(seconds))
    failures.noticed(Task("ps", 0), SILENT, 6.0)
    failures.noticed(Task("worker", 1), LOST)
    failures.work([Task("ps", 0)])
    lines = shown(make_result(1), failures=failures)
    [line] = [line for line in lines if line[:1] == ["failures"]]
    assert " ".join(line) == (
        "failures of tasks 1 lost, 1 silent, noticed after 3.0 s, 1 back 3.0 s later"
    )


def test_of_many_workers_the_slowest_are_shown() -> None:
    lines = shown(make_result(MOST_WORKERS + 4))
    assert any("16 slowest of 20; workers.csv has all" in " ".join(line) for line in lines)
    rows = [int(line[0]) for line in lines if line[:1] and line[0].isdigit() and "≤" in line]
    assert rows == list(range(19, 3, -1))


def test_workers_that_are_not_alike_are_told_apart() -> None:
    def roles(config: Config) -> list[str]:
        summary = summarize(config, make_result(3), History(start_seconds=2.5), 24.0)
        lines = lines_of(summary)
        [heading] = [line for line in lines if "staleness" in line]
        rows = [line for line in lines if line[:1] and line[0].isdigit() and "≤" in line]
        return [row[1] for row in rows] if "role" in heading else []

    apex = {"topology": "apex", "replay": "prioritized", "num_actors": 2}
    assert roles(Config.from_values(apex)) == ["learner", "actor", "actor"]
    assert roles(Config()) == []


def test_each_actor_says_what_it_took_as_far_as_it_was_heard(tmp_path: pathlib.Path) -> None:
    known = Config(), make_result(1), History(start_seconds=2.5), 24.0

    def row(*actors: float) -> list[str]:
        lines = lines_of(summarize(*known, actors))
        return [" ".join(line) for line in lines if line[:2] == ["actors'", "memory"]]

    assert row() == row(math.nan) == []
    assert row(61e6) == ["actors' memory 61 MB"]
    assert row(61e6, math.nan, 50e6) == ["actors' memory 111 MB of 2, 61 MB at most"]
    directory.write_summary(tmp_path, summarize(*known, [61e6, math.nan]))
    written = json.loads((tmp_path / directory.SUMMARY).read_text())
    assert written["actors"] == [{"memory": 61e6}, {"memory": None}]


def test_where_room_is_scarce_the_memory_of_every_task_is_still_there() -> None:
    replay = {
        "rows": 19_456, "adds": 20_246, "samples": 147_456, "bytes_in": 1_300_000,
        "bytes_out": 8_200_000, "seconds": 0.2, "alive_seconds": 12.5, "memory": 120e6,
    }  # fmt: skip
    result = dataclasses.replace(make_result(2), replay_servers=[replay])
    result.servers = [server | {"memory": 140e6} for server in result.servers]
    text = io.StringIO()
    summary = summarize(Config(), result, History(start_seconds=2.5), 24.0)
    show(Console(file=text, width=50), summary, pathlib.Path("runs/x"))
    for took, times in (("200 MB", 2), ("140 MB", 2), ("120 MB", 1)):
        assert text.getvalue().count(took) == times, text.getvalue()


def test_a_run_without_a_report_has_tables_too() -> None:
    lines = shown(make_result(0))
    assert not any(line[:1] == ["Workers"] for line in lines)
    assert ["Parameter", "servers"] in lines
