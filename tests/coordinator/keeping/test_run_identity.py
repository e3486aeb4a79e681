"""The name a run's workers find their files by."""

import json
import pathlib

import pytest
from support import states

from ps_dqn.run import directory
from ps_dqn.run.checkpoints import Checkpoints


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


def test_what_another_run_has_learned_and_measured_is_set_aside(tmp_path: pathlib.Path) -> None:
    # One that was killed before its first newest checkpoint, and may be of another environment.
    directory.create(tmp_path)
    assert directory.set_aside(tmp_path) is None
    left = {
        pathlib.Path(directory.CHECKPOINTS, "best.npz"): "of another network",
        pathlib.Path(directory.METRICS): "env_steps",
        pathlib.Path(directory.TENSORBOARD, "events.out.tfevents.1"): "its curves",
        pathlib.Path(directory.MODEL): "its policy",
    }
    for number in (1, 2):
        for name, text in left.items():
            (tmp_path / name).write_text(text)
        (tmp_path / directory.LOGS / "coordinator.log").write_text("is written already")
        (tmp_path / directory.FLAGFILE).write_text("so is this")
        aside = tmp_path / f"earlier-{number}"
        assert directory.set_aside(tmp_path) == aside
        assert {name: (aside / name).read_text() for name in left} == left
        assert not any((tmp_path / name).exists() for name in left)
        assert (tmp_path / directory.LOGS / "coordinator.log").exists()
        assert (tmp_path / directory.FLAGFILE).exists()
        assert (tmp_path / directory.TENSORBOARD).is_dir(), "this run's events come there"
        assert directory.set_aside(tmp_path) is None


@pytest.mark.slow
def test_a_run_that_begins_anew_has_no_best_but_its_own(coordinate, tmp_path) -> None:
    folder = tmp_path / "again"
    (folder / directory.CHECKPOINTS).mkdir(parents=True)
    held = Checkpoints(folder / directory.CHECKPOINTS, keep=1)
    held.save_best(states.state(10), seconds=1.0, eval_return=1e9)  # of five parameters
    metrics = "version,updates,env_steps,episodes,sequential_updates\n1,1,999999,1,1\n"
    (folder / directory.METRICS).write_text(metrics)
    flags = ("--hidden_sizes=8", "--jit_compile=none", "--total_env_steps=600", "--eval_episodes=1")
    _, ended = coordinate(folder.name, "--cluster=in_process", "--num_workers=1", *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert held.best_return() <= 500
    assert json.loads((folder / directory.SUMMARY).read_text())["best_eval_return"] <= 500
    aside = folder / "earlier-1"
    assert Checkpoints(aside / directory.CHECKPOINTS, keep=1).best_return() == 1e9
    assert (aside / directory.METRICS).read_text() == metrics
    rows = directory.read_metrics(folder)
    assert rows
    assert all(int(row["env_steps"]) < 999999 for row in rows)
    said = f"training begins anew: what an earlier run has left is in {aside} now"
    assert said in ended.stdout.splitlines()


def test_how_long_a_run_has_trained_is_in_its_metrics(tmp_path: pathlib.Path) -> None:
    assert directory.trained_seconds(tmp_path) == 0.0
    (tmp_path / directory.METRICS).write_text("env_steps,seconds\n100,4.5\n200,9.25\n")
    assert directory.trained_seconds(tmp_path) == 9.25
