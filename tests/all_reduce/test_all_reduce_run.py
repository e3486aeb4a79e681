"""Whole runs of workers that add up, in real processes: the same as rounds of parameter servers."""

import csv
import json
import subprocess

import numpy as np
import pytest

from ps_dqn.run.checkpoints import Checkpoints

UPDATES = (
    "--local_updates=1",
    "--num_workers=2",
    "--num_envs=16",
    "--update_period=4",
    "--hidden_sizes=32,32",
    "--min_replay_size=400",
    "--batch_size=16",
    "--target_update_period=20",
    "--target_return=inf",
    "--jit_compile=none",
    "--eval_period=1000000",
    "--eval_episodes=2",
    "--max_eval_steps=50",
)
RUN = (*UPDATES, "--total_env_steps=2000")
ALL_REDUCE = (*RUN, "--strategy=all_reduce")


@pytest.fixture(scope="module")
def added_up(coordinate_once):
    folder, ended = coordinate_once("all_reduce", *ALL_REDUCE)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder, ended


@pytest.mark.slow
def test_200_updates_are_those_of_rounds_on_a_parameter_server(added_up, coordinate_once) -> None:
    """On the same experience: what workers do next follows from what they have learned."""
    folder, _ = added_up
    other, ended = coordinate_once("servers", *RUN, "--aggregation=sync", "--num_ps=1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ours, theirs = (Checkpoints(each / "checkpoints", 1).newest().state for each in (folder, other))
    assert ours.counters == theirs.counters
    assert ours.counters.version > 200
    assert ours.counters.updates == 2 * ours.counters.version
    for name in ("online", "target", "average"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-5)
    np.testing.assert_allclose(ours.slots, theirs.slots, atol=1e-5)


def test_nothing_speaks_of_parameter_servers(added_up) -> None:
    folder, ended = added_up
    assert "workers add up their gradients (--strategy=all_reduce)" in ended.stdout
    assert "parameter server" not in ended.stdout.lower()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["parameter_servers"] == []
    assert "--num_ps=0" in (folder / "flags.txt").read_text()
    assert not list((folder / "logs").glob("ps-*"))
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    trained = [row for row in rows if row["train/td_loss"]]
    assert {float(row["train/staleness"]) for row in trained} == {0}
    assert float(trained[-1]["wire/bytes_pulled"]) == 0
    # Of two members each sends a whole vector for a push.
    size = len(Checkpoints(folder / "checkpoints", 1).newest().state.online)
    workers = summary["workers"].values()
    pushes = sum(each["pushes_applied"] for each in workers)
    assert sum(each["bytes_pushed"] for each in workers) == pushes * 4 * size


def test_it_is_evaluated_exported_and_goes_on(added_up, coordinate_once) -> None:
    folder, _ = added_up
    before = json.loads((folder / "summary.json").read_text())
    assert before["eval_return"] > 0
    again, ended = coordinate_once("all_reduce", "--total_env_steps=2400")
    assert again == folder
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "resumed at" in ended.stdout
    after = json.loads((folder / "summary.json").read_text())
    assert after["version"] > before["version"]
    assert (folder / "best.keras").exists()


def test_one_worker_has_nobody_to_add_up_with(coordinate) -> None:
    flags = [each for each in ALL_REDUCE if not each.startswith("--num_workers")]
    folder, ended = coordinate("alone", *flags, "--num_workers=1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["updates"] == summary["version"] > 100
    assert summary["workers"]["0"]["bytes_pushed"] == 0


def refused(coordinate, *flags: str) -> str:
    _, ended = coordinate("refused", *UPDATES, "--strategy=all_reduce", *flags)
    assert isinstance(ended, subprocess.CompletedProcess)
    assert ended.returncode == 2, ended.stdout
    [line] = ended.stderr.splitlines()
    return line


def test_what_it_has_no_use_for_is_refused_before_any_task_starts(coordinate) -> None:
    assert refused(coordinate, "--num_ps=1") == (
        "error: --num_ps=1: --strategy=all_reduce has no parameter servers; leave it out"
    )
    assert refused(coordinate, "--cluster=in_process") == (
        "error: --cluster=in_process: does not go with --strategy=all_reduce, for which each "
        "worker is a process of its own; leave it out"
    )
