"""Ways of aggregating that CartPole is solved by, on local clusters of real processes."""

import json

import pytest
from support.programs import ROOT

GORILA = f"--flagfile={ROOT / 'flags' / 'presets' / 'gorila.flags'}"
SECONDS = 600
WORKER = 3  # of `support.garbage_env`, which is for the runs' own processes: it changes its process


@pytest.mark.thorough
def test_gorilas_scheme_solves_cartpole(coordinate) -> None:
    # To 475 it takes minutes; 195 was what CartPole-v0 asked for.
    flags = "--aggregation=sync", "--target_return=195", "--eval_period=5000"
    folder, ended = coordinate("gorila", GORILA, *flags, "--seed=1", seconds=SECONDS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads((folder / "summary.json").read_text())["reason"] == "solved", ended.stdout


ROBUST = (
    f"--flagfile={ROOT / 'flags' / 'presets' / 'cartpole.flags'}",
    "--env_module=support.garbage_env",
    "--num_workers=4",
    "--outer_momentum=0",
    "--seed=1",
)


@pytest.mark.slow
def test_a_worker_that_pushes_garbage_does_not_keep_three_others_from_solving_cartpole(
    coordinate,
) -> None:
    folder, ended = coordinate("garbage", *ROBUST, "--aggregation=trimmed_mean", seconds=SECONDS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reason"] == "solved", ended.stdout
    assert summary["workers"][str(WORKER)]["pushes_applied"] > 0


@pytest.mark.thorough
def test_the_mean_does_not_stand_garbage(coordinate) -> None:
    folder, ended = coordinate(
        "mean", *ROBUST, "--aggregation=sync", "--total_env_steps=60000", seconds=SECONDS
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads((folder / "summary.json").read_text())["best_eval_return"] < 200
