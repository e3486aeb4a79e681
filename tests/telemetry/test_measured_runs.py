"""What a run has left, read back."""

import dataclasses
import math
import pathlib

from support.made_runs import evaluations, make

from ps_dqn import config as configuration
from ps_dqn.telemetry import measured


def test_a_run_is_read_back(tmp_path: pathlib.Path) -> None:
    rows = [
        {"env_steps": 500, "train/q_values": 3.5},
        *evaluations(1.0, math.inf),
        {"env_steps": 3000, "train/q_values": 4.5},
    ]
    make(tmp_path / "run", "--seed=7", "--nodouble_dqn", "--noisy", rows=rows)

    run = measured.read(tmp_path / "run")

    assert (run.env_id, run.seed, run.reason) == ("CartPole-v1", "7", "finished")
    assert run.points("env_steps", "train/q_values") == [(500, 3.5), (3000, 4.5)]
    assert run.points("seconds", "train/q_values") == []
    assert run.values("eval/episode_return") == [1.0, math.inf]
    assert run.last("train/q_values") == 4.5
    assert math.isnan(run.last("train/td_loss"))
    assert math.isnan(run.last("no/such_metric"))


def test_switches_are_told_from_names_that_begin_with_no(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "run", "--noisy", "--nodouble_dqn")

    settings = measured.read(tmp_path / "run").settings

    assert (settings["noisy"], settings["double_dqn"], settings["restart"]) == (
        "true",
        "false",
        "false",
    )
    # All that are written; those without a value are not.
    fields = [field for group in configuration.groups() for field in dataclasses.fields(group.type)]
    assert {field.name for field in fields if field.default is not None} <= settings.keys()


def test_a_run_that_goes_on_has_no_end_and_half_a_row(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "run", rows=evaluations(1.0), reason="")
    with (folder / "metrics.csv").open("a") as file:
        file.write("3,4,20")

    run = measured.read(folder)

    assert run.reason == ""
    assert run.summary is None
    assert run.last("env_steps") == 1000


def test_a_folder_without_files_is_an_empty_run(tmp_path: pathlib.Path) -> None:
    run = measured.read(tmp_path)
    assert (run.settings, run.rows, run.summary) == ({}, [], None)
