"""Checksums against every way in which a file of rows may be damaged.

Each environment's rows hold numbers that follow from its position, so whatever `recover` returns
can be compared with what was written.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.checksum_table import ROWS, Table, filled


def test_nothing_written_is_nothing_whole() -> None:
    assert Table().recover() == [(0, 0), (0, 0)]


@pytest.mark.parametrize("until", [1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 20])
def test_all_rows_of_the_ring_are_whole(until: int) -> None:
    run = (max(until - ROWS, 0), until)
    assert filled(until).recover() == [run, run]


def test_environments_are_recovered_one_by_one() -> None:
    table = filled(20)
    for position in range(20, 90):
        table.write(position, range(1, 2))
    assert table.recover() == [(0, 20), (40, 90)]


def test_a_row_that_was_written_without_a_checksum_is_not_whole() -> None:
    table = filled(120)
    table.write(120, with_checksum=False)
    # Row 120 took the place of row 70, whose checksum is still there.
    assert table.recover() == [(71, 120), (71, 120)]


def test_of_a_hole_the_longer_side_is_kept() -> None:
    table = filled(120)  # positions 70 to 119
    table.values[80 % ROWS] = 0
    table.ends[ROWS + 110 % ROWS] ^= 1
    assert table.recover() == [(81, 120), (70, 110)]


def test_of_many_runs_the_longest_is_kept() -> None:
    table = filled(120)
    for position in (75, 90, 100):
        table.values[position % ROWS, 1] += 1
    assert table.recover()[0] == (101, 120)


@pytest.mark.parametrize("name", ["values", "ends", "sums", "numbers"])
def test_any_changed_bit_is_noticed(name: str) -> None:
    table = filled(ROWS)
    array = getattr(table, name)
    flat = array.reshape(array.shape[0], -1).view(np.uint8)
    for byte in range(flat.shape[1]):
        for bit in range(8):
            flat[10, byte] ^= 1 << bit
            assert table.recover() == [(11, ROWS), (0, ROWS)]
            flat[10, byte] ^= 1 << bit
    assert table.recover()[0] == (0, ROWS)


def test_a_whole_row_in_a_wrong_place_is_not_whole() -> None:
    table = filled(ROWS)
    for array in (table.values, table.ends, table.sums, table.numbers):
        array[5] = array[6]
    assert table.recover()[0] == (6, ROWS)


def test_lost_pages_leave_only_what_was_written() -> None:
    # 512 rows of a page each; pages come back as zeros, or as they were one turn of the ring ago.
    rng = np.random.default_rng(3)
    for _ in range(10):
        table = filled(1200, rows=512, width=8)
        old = {name: getattr(table, name).copy() for name in ("values", "ends", "sums", "numbers")}
        for position in range(1200, 1500):
            table.write(position)
        for name, before in old.items():
            array = getattr(table, name).reshape(-1).view(np.uint8)
            for page in rng.integers(array.size // 512, size=3):
                place = slice(512 * page, 512 * page + 512)
                array[place] = rng.choice([0, 1]) * before.reshape(-1).view(np.uint8)[place]
        table.recover()


def test_garbage_is_never_whole() -> None:
    rng = np.random.default_rng(4)
    table = filled(ROWS)
    for _ in range(50):
        for name in ("values", "ends", "sums", "numbers"):
            array = getattr(table, name).reshape(-1).view(np.uint8)
            array[:] = rng.integers(256, size=array.size)
        # Even where the positions are believable.
        table.numbers[:ROWS] = np.arange(ROWS) + 1
        assert table.recover() == [(0, 0), (0, 0)]


def test_a_process_killed_at_any_time_leaves_whole_rows(tmp_path: pathlib.Path) -> None:
    program = (
        "import itertools, pathlib, sys\n"
        "sys.path[:0] = ['tests']\n"
        "from support.checksum_table import Table\n"
        f"table = Table(pathlib.Path({str(tmp_path)!r}))\n"
        "for position in itertools.count():\n"
        f"    if position == {3 * ROWS}:\n"
        "        print('goes on', flush=True)\n"
        "    table.write(position)\n"
    )
    root = pathlib.Path(__file__).parents[2]
    writer = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "goes on\n"
        os.kill(writer.pid, signal.SIGKILL)
    for first, end in Table(tmp_path).recover():
        assert end >= 3 * ROWS
        # Two rows at most are lost: the one that was being written and the one in whose place.
        assert end - first >= ROWS - 1


def test_a_checksum_takes_microseconds() -> None:
    table = filled(1, rows=800)
    rows = np.arange(64) + 800
    positions = np.arange(64)
    table.checksums.update(rows, positions)
    best = float("inf")
    for _ in range(50):
        started = time.perf_counter()
        table.checksums.update(rows, positions)
        best = min(best, time.perf_counter() - started)
    # About 1 µs a row; a machine that is ten times slower passes too.
    assert best / 64 < 10e-6
