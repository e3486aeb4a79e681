"""The table of scores of an evaluator that follows a run, whatever its disk has made of it."""

import csv
import errno
import os
import pathlib

import numpy as np
import pytest
from support.full_disk import FullDisk
from support.states import state

from ps_dqn.evaluator.checkpoint_player import Score
from ps_dqn.evaluator.score_table import ScoreTable
from ps_dqn.run import directory
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.state import Counters


def score(updates: int) -> Score:
    checkpoint = Checkpoint(pathlib.Path("updates.npz"), state(updates), 1.0, float("nan"))
    return Score(checkpoint, np.array([1.0, 2.0, 6.0]))


def rows(folder: pathlib.Path) -> list[dict[str, str]]:
    with (folder / directory.EVALUATIONS).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def table(tmp_path: pathlib.Path, said: list[str]) -> ScoreTable:
    return ScoreTable(tmp_path, said.append)


def test_a_score_becomes_a_row_with_all_counters(table: ScoreTable, tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        table.add(score(10))
    first, second = rows(tmp_path)
    assert first == second
    counters = {name: int(first[name]) for name in Counters._fields}
    assert counters == state(10).counters._asdict()
    assert float(first["return_mean"]) == 3.0
    assert float(first["return_median"]) == 2.0


@pytest.mark.parametrize("half", [b"2", b"15,30,10", b"\x00\x00\x00"])
def test_half_a_row_is_dropped_and_the_checkpoint_before_it_is_the_last_played(
    table: ScoreTable, tmp_path: pathlib.Path, half: bytes
) -> None:
    table.add(score(10))
    with (tmp_path / directory.EVALUATIONS).open("ab") as file:
        file.write(half)
    assert table.played() == 10
    table.add(score(20))
    assert [row["updates"] for row in rows(tmp_path)] == ["10", "20"]


@pytest.mark.parametrize("left", [b"", b"version,upd"])
def test_a_header_that_is_not_whole_is_written_again(
    table: ScoreTable, tmp_path: pathlib.Path, left: bytes
) -> None:
    (tmp_path / directory.EVALUATIONS).write_bytes(left)
    assert table.played() == -1
    table.add(score(10))
    assert [row["updates"] for row in rows(tmp_path)] == ["10"]


def test_rows_of_a_version_before_are_kept_but_for_two_that_became_one(
    table: ScoreTable, tmp_path: pathlib.Path
) -> None:
    table.add(score(10))
    path = tmp_path / directory.EVALUATIONS
    header, row = path.read_text().splitlines()
    path.write_text(f"{header}\n{row}\n{row[:9]}{row}\n")
    assert table.played() == 10
    assert [each["updates"] for each in rows(tmp_path)] == ["10"]


def test_nothing_is_there_before_the_first_score(table: ScoreTable, tmp_path: pathlib.Path) -> None:
    # A coordinator would take it for an earlier run's, and move it out of its way.
    assert table.played() == -1
    assert table.close() == ""
    assert list(tmp_path.iterdir()) == []


def test_on_a_full_disk_rows_wait_and_that_is_said(
    table: ScoreTable, tmp_path: pathlib.Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.add(score(10))
    disk = FullDisk(monkeypatch, room=5)
    table.add(score(20))
    assert [row["updates"] for row in rows(tmp_path)] == ["10"]
    assert table.played() == 10
    disk.room = 10_000
    table.add(score(30))
    assert [row["updates"] for row in rows(tmp_path)] == ["10", "20", "30"]
    assert [line.partition(" (")[0] for line in said] == [
        "evaluations cannot be written",
        "evaluations are written again",
    ]


def test_what_still_waits_at_the_end_is_tried_again_and_told(
    table: ScoreTable, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, room=0)
    monkeypatch.setattr("ps_dqn.run.disk.LAST_PAUSE", 0.0)
    table.add(score(10))
    assert table.close() == os.strerror(errno.ENOSPC)
    disk.room = 10_000
    assert table.close() == ""
    assert [row["updates"] for row in rows(tmp_path)] == ["10"]


def test_what_waits_of_a_run_goes_with_it(
    table: ScoreTable, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, room=0)
    table.add(score(10))
    disk.room = 10_000
    table.begin_anew()
    table.add(score(5))
    assert [row["updates"] for row in rows(tmp_path)] == ["5"]
