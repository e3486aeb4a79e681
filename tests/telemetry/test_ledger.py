"""The ledgers against the same sums written out."""

import json
import math

import pytest
from support.reports import report

from ps_dqn.telemetry import ledger, metrics
from ps_dqn.telemetry.ledger import BINS, ServerLedger, WorkerLedger
from ps_dqn.telemetry.metrics import PHASES
from ps_dqn.wire.messages import Entry, Kind


def entry(kind: Kind, worker: int = 0, staleness: int = 0, ticket: int = 1) -> Entry:
    zeros = Entry(*[0] * len(Entry._fields))
    return zeros._replace(kind=int(kind), worker=worker, staleness=staleness, ticket=ticket)


def test_requests_and_bytes_add_up() -> None:
    book = ServerLedger()
    book.pulled(100)
    book.pulled(40)
    book.pushed(7, 0.5)
    book.pushed(9, 0.25)
    book.pushed(1, 0.0)
    book.worked(2.0)
    book.duplicates += 1
    assert book.as_dict() == {
        "pulls": 2,
        "bytes_out": 140,
        "pushes": 3,
        "bytes_in": 17,
        "seconds": 2.75,
        "duplicates": 1,
        "kinds": {},
        "staleness": {},
    }


def test_decisions_are_counted_by_worker_and_kind() -> None:
    book = ServerLedger()
    for kind, worker in [
        (Kind.APPLIED, 0), (Kind.APPLIED, 0), (Kind.STALE, 0), (Kind.APPLIED, 2),
        (Kind.LATE, 2), (Kind.WITHHELD, 2), (Kind.WITHHELD, 2),
    ]:  # fmt: skip
        book.decided(entry(kind, worker))
    assert book.as_dict()["kinds"] == {
        0: {"applied": 2, "stale": 1},
        2: {"applied": 1, "late": 1, "withheld": 2},
    }


def test_only_applied_tickets_enter_the_sum() -> None:
    book = ServerLedger()
    for kind, ticket in [
        (Kind.APPLIED, 3), (Kind.STALE, 10), (Kind.APPLIED, 5), (Kind.LATE, 20),
        (Kind.WITHHELD, 40),
    ]:  # fmt: skip
        book.decided(entry(kind, ticket=ticket))
    assert (book.applied, book.sum_of_tickets) == (2, 8)


def test_staleness_has_a_histogram_for_each_worker() -> None:
    book = ServerLedger()
    for worker, age in [(0, 0), (0, 2), (0, 2), (1, 3), (1, 1)]:
        book.decided(entry(Kind.APPLIED, worker, age))
    book.decided(entry(Kind.STALE, 0, 4))
    # It has no vector, so its age says nothing.
    book.decided(entry(Kind.WITHHELD, 1, 9))
    assert book.as_dict()["staleness"] == {0: [1, 0, 2, 0, 1], 1: [0, 1, 0, 1]}


def test_the_oldest_pushes_share_the_last_bin() -> None:
    book = ServerLedger()
    for age in (BINS - 2, BINS - 1, BINS, 10**6):
        book.decided(entry(Kind.APPLIED, staleness=age))
    assert book.as_dict()["staleness"] == {0: [0] * (BINS - 2) + [1, 3]}


def test_a_server_ledger_travels_as_json() -> None:
    book = ServerLedger()
    book.decided(entry(Kind.APPLIED, 3, 1))
    assert json.loads(json.dumps(book.as_dict()))["staleness"] == {"3": [0, 1]}


def test_balance_is_the_most_loaded_server_over_the_mean() -> None:
    def server(bytes_in: int, bytes_out: int) -> dict[str, int]:
        return {"bytes_in": bytes_in, "bytes_out": bytes_out}

    assert ledger.balance([server(10, 20), server(30, 0), server(5, 25)]) == 1.0
    assert ledger.balance([server(10, 50), server(0, 20), server(40, 0)]) == pytest.approx(1.5)
    assert ledger.balance([server(3, 4)]) == 1.0
    assert math.isnan(ledger.balance([server(0, 0), server(0, 0)]))


def test_a_worker_row_adds_its_reports_up() -> None:
    first = report(
        worker=1, updates=4, env_steps=32, pushes=2, refused=1, withheld_outliers=1, staleness=5,
        staleness_max=3, bytes_pulled=100, bytes_pushed=50, pull_took=0.2, push_took=0.6,
        time_pull=0.1,
    )  # fmt: skip
    second = report(
        worker=1, updates=2, env_steps=16, pushes=2, refused=1, withheld_not_finite=3, staleness=1,
        staleness_max=1, bytes_pulled=10, bytes_pushed=5, pull_took=0.3, push_took=0.1,
        time_pull=0.3, time_push=0.1,
    )  # fmt: skip
    row = WorkerLedger([first, second]).rows()[1]
    expected = {
        "updates_made": 6,
        "env_steps_made": 48,
        "pushes_applied": 4,
        "pushes_refused": 2,
        "pushes_withheld": 4,
        "staleness": 6 / 6,  # of the pushes that were decided
        "staleness_max": 3,
        "bytes_pulled": 110,
        "bytes_pushed": 55,
        "pull_ms": 1e3 * 0.5 / 10,  # of all exchanges
        "push_ms": 1e3 * 0.7 / 10,
        "slowness": 1.0,
        "time_pull": 0.4,
        "time_push": 0.1,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_rows_have_the_columns_in_name_and_each_worker_its_own() -> None:
    book = WorkerLedger([report(worker=2, updates=1, time_gradient=1.0)])
    book.add(report(worker=0, updates=2, time_gradient=1.0))
    rows = book.rows()
    assert list(rows) == [0, 2]
    assert all(tuple(row) == metrics.worker_columns() for row in rows.values())
    assert [row["updates_made"] for row in rows.values()] == [2, 1]


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_adds_up(phase: str) -> None:
    book = WorkerLedger([report(**{f"time_{phase}": 0.25}), report(**{f"time_{phase}": 0.5})])
    assert book.rows()[0][f"time_{phase}"] == 0.75


def test_slowness_is_against_the_median_and_of_work_alone() -> None:
    seconds = {0: 1.0, 1: 2.0, 2: 6.0}
    book = WorkerLedger(
        report(worker=worker, updates=10, time_gradient=each / 2, time_acting=each / 2,
               time_waiting=100.0, time_dispatch=50.0 * each, time_evaluation=10.0)
        for worker, each in seconds.items()
    )  # fmt: skip
    slowness = {worker: row["slowness"] for worker, row in book.rows().items()}
    assert slowness == pytest.approx({0: 0.5, 1: 1.0, 2: 3.0})


def test_what_a_worker_did_not_do_is_not_a_number() -> None:
    row = WorkerLedger([report(worker=0, time_waiting=1.0)]).rows()[0]
    for name in ("staleness", "pull_ms", "push_ms", "slowness"):
        assert math.isnan(row[name]), name
    assert WorkerLedger().rows() == {}


@pytest.mark.parametrize("idle", [0, 1, 2])
def test_a_worker_that_did_nothing_does_not_change_the_median(idle: int) -> None:
    busy = [worker for worker in range(4) if worker != idle]
    reports = {idle: report(worker=idle)}
    for worker, seconds in zip(busy, (1.0, 2.0, 3.0), strict=True):
        reports[worker] = report(worker=worker, updates=1, time_gradient=seconds)
    rows = WorkerLedger(reports[worker] for worker in range(4)).rows()
    assert math.isnan(rows[idle]["slowness"])
    assert [rows[worker]["slowness"] for worker in busy] == pytest.approx([0.5, 1.0, 1.5])


def test_what_was_not_measured_does_not_spoil_a_sum() -> None:
    book = WorkerLedger([report(updates=1, epsilon=math.nan)])
    book.add(report(updates=1, epsilon=0.5, td_loss=math.nan))
    assert book.rows()[0]["updates_made"] == 2
    assert (book.total("epsilon"), book.count("epsilon")) == (0.5, 1)


def test_measures_add_up_by_their_rules() -> None:
    book = WorkerLedger(
        report(worker=worker, updates=updates, pull_max=longest, replay_size=rows)
        for worker, updates, longest, rows in [(0, 1, 0.5, 10), (1, 2, 0.25, 5), (0, 4, 0.125, 30)]
    )
    assert book.total("updates") == 7
    assert book.total("updates", "pushes") == 7
    assert book.largest("pull_max") == 0.5
    assert book.total("replay_size") == 30 + 5  # each worker's last
    assert math.isnan(WorkerLedger().largest("pull_max"))
