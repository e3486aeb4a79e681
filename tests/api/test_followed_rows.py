"""Rows of metrics as they come, also where the file is begun anew."""

import pathlib

import pytest

from ps_dqn.api.measures import Follower, read
from ps_dqn.run import directory
from ps_dqn.state import Counters
from ps_dqn.telemetry.writers import Writers


def add(writers: Writers, *env_steps: int) -> None:
    for each in env_steps:
        row = {"seconds": each / 100, "train/td_loss": 0.5}
        writers.add(Counters(each // 64, each // 8, each, 1, each // 8), row)
    writers.flush()


@pytest.fixture
def run_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    directory.create(tmp_path)
    return tmp_path


def test_rows_are_given_once(run_dir: pathlib.Path) -> None:
    follower = Follower(run_dir)
    assert follower.new() == []
    writers = Writers(run_dir)
    add(writers, 640, 1280)
    assert [row.env_steps for row in follower.new()] == [640, 1280]
    assert follower.new() == []
    add(writers, 1920)
    [row] = follower.new()
    assert (row.env_steps, row.updates, row.episodes, row.seconds) == (1920, 240, 1, 19.2)
    assert row.eval_return is None
    assert row.by_name["train/td_loss"] == 0.5
    assert "eval/episode_return" not in row.by_name
    writers.close()
    assert read(run_dir) == follower.all


def test_half_a_row_is_waited_for(run_dir: pathlib.Path) -> None:
    path = run_dir / directory.METRICS
    path.write_text("updates,env_steps,episodes,seconds\r\n8,64,1,0.5\r\n16,12")
    follower = Follower(run_dir)
    assert [row.env_steps for row in follower.all] == [64]
    with path.open("a") as file:
        file.write("8,2,0.75\r\n")
    assert [(row.env_steps, row.seconds) for row in follower.new()] == [(128, 0.75)]


def test_a_resumed_run_gives_what_it_measures_again_and_nothing_else(run_dir: pathlib.Path) -> None:
    writers = Writers(run_dir)
    add(writers, 640, 1280, 1920)
    writers.close()
    follower = Follower(run_dir)
    # The checkpoint was made between the second row and the third.
    writers = Writers(run_dir)
    writers.resume(Counters(20, 200, 1500, 1, 200))
    assert follower.new() == []
    add(writers, 1984)
    assert [row.env_steps for row in follower.new()] == [1984]
    assert [row.env_steps for row in follower.all] == [640, 1280, 1984]
    writers.close()


def test_a_run_that_has_measured_more_again_than_was_dropped_is_followed(
    run_dir: pathlib.Path,
) -> None:
    writers = Writers(run_dir)
    add(writers, 640, 1280, 1920)
    follower = Follower(run_dir)
    writers.resume(Counters(10, 80, 1000, 1, 80))
    add(writers, 1344, 1984, 2624)
    assert [row.env_steps for row in follower.new()] == [1344, 1984, 2624]
    assert [row.env_steps for row in follower.all] == [640, 1344, 1984, 2624]
    writers.close()
