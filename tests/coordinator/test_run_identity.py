"""The name a run's workers find their files by."""

import pathlib

from ps_dqn.run import directory


def keep_something(folder: pathlib.Path) -> pathlib.Path:
    kept = folder / directory.WORKER_FILES / "worker-0" / "actions.bin"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"rows")
    return kept


def test_a_resumed_run_keeps_its_name_and_its_workers_files(tmp_path: pathlib.Path) -> None:
    name = directory.identity(tmp_path, is_new=True)
    kept = keep_something(tmp_path)
    assert directory.identity(tmp_path, is_new=False) == name
    assert kept.exists()


def test_a_new_run_in_the_same_folder_has_neither(tmp_path: pathlib.Path) -> None:
    # One that left no checkpoint: its replay is of other parameters, maybe of another environment.
    name = directory.identity(tmp_path, is_new=True)
    kept = keep_something(tmp_path)
    assert directory.identity(tmp_path, is_new=True) != name
    assert not kept.exists()
