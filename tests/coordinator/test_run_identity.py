"""The name a run's workers find their files by."""

import pathlib

from ps_dqn.run import directory


def keep_something(folder: pathlib.Path) -> pathlib.Path:
    kept = folder / directory.WORKER_FILES / "worker-0" / "actions.bin"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"rows")
    return kept


def test_a_folder_of_no_run_has_no_name(tmp_path: pathlib.Path) -> None:
    assert directory.identity(tmp_path) == ""


def test_a_resumed_run_keeps_its_name_and_its_workers_files(tmp_path: pathlib.Path) -> None:
    name = directory.new_identity(tmp_path)
    kept = keep_something(tmp_path)
    assert directory.identity(tmp_path) == name
    assert kept.exists()


def test_a_new_run_in_the_same_folder_has_neither(tmp_path: pathlib.Path) -> None:
    # One that left no checkpoint: its replay is of other parameters, maybe of another environment.
    name = directory.new_identity(tmp_path)
    kept = keep_something(tmp_path)
    assert directory.new_identity(tmp_path) != name
    assert not kept.exists()


def test_how_long_a_run_has_trained_is_in_its_metrics(tmp_path: pathlib.Path) -> None:
    assert directory.trained_seconds(tmp_path) == 0.0
    (tmp_path / directory.METRICS).write_text("env_steps,seconds\n100,4.5\n200,9.25\n")
    assert directory.trained_seconds(tmp_path) == 9.25
