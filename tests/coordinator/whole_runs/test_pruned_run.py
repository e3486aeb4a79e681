"""Whole runs of networks most of whose weights are zero: what is kept, shown and left."""

import csv
import itertools
import json
import os
import pathlib
import signal
import time

import numpy as np
import pytest
from support.processes import Processes
from support.states import newest
from support.tiers import tiered

from ps_dqn.errors import UsageError
from ps_dqn.state import State

SMALL = (
    "--hidden_sizes=16,16",
    "--value_distribution=none",
    "--jit_compile=none",
    "--min_replay_size=200",
    "--local_updates=8",
    "--eval_period=100000",
    "--eval_episodes=2",
    "--confirm_episodes=0",
    "--target_return=inf",
    "--metrics_period=500",
)
WEIGHTS = 4 * 16 + 16 * 16 + 16 * 2


def holds(state: State) -> None:
    """Asserts that nothing is where the mask has nothing."""
    gone = state.mask == 0
    for vector in (state.online, state.target, state.average, *state.slots):
        assert not vector[gone].any()
        assert vector[~gone].any()


@pytest.mark.slow
@pytest.mark.parametrize("pruning", ["magnitude", "rigl"])
def test_a_run_becomes_as_sparse_as_it_is_to_be(coordinate, pruning: str) -> None:
    flags = ("--cluster=in_process", "--num_workers=1", "--num_ps=2", "--num_envs=8", *SMALL)
    options = (f"--pruning={pruning}", "--sparsity=0.8", "--pruning_changes=6")
    folder, ended = coordinate("run", *flags, *options, "--total_env_steps=3000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    state = newest(folder)
    holds(state)
    assert state.mask_number == 6 + (pruning == "rigl")
    assert int((state.mask == 0).sum()) == pytest.approx(0.8 * WEIGHTS, abs=3)

    summary = json.loads((folder / "summary.json").read_text())
    assert summary["sparsity"]["all"] == pytest.approx(0.8, abs=0.01)
    layers = list(summary["sparsity"]["layers"].values())
    assert layers[1] > max(layers[0], layers[2]), "narrow layers keep more"
    assert "of the layers' weights are zero" in " ".join(ended.stdout.split())
    with (folder / "metrics.csv").open(newline="") as file:
        shown = [float(x) for row in csv.DictReader(file) if (x := row["train/sparsity"])]
    assert shown == sorted(shown)
    assert shown[-1] == pytest.approx((state.mask == 0).mean())
    if pruning == "rigl":
        assert shown[0] == pytest.approx(shown[-1], abs=1e-6)


WAYS = {
    "a3c": ("--preset=a3c", "--num_workers=2", "--num_envs=16", "--hidden_sizes=32,32"),
    "ape_x": ("--preset=ape_x", "--num_actors=1", "--num_learners=2", "--num_envs=8", *SMALL),
    "async": ("--num_workers=2", "--aggregation=async", "--num_envs=16", *SMALL),
    "median": ("--num_workers=2", "--aggregation=median", "--num_envs=16", *SMALL),
    "gradients": ("--num_workers=1", "--local_updates=1", "--num_envs=8", *SMALL[:4]),
    "normalized": ("--num_workers=1", "--normalize_observations=on", "--num_envs=8", *SMALL),
}


@pytest.mark.parametrize(
    "way",
    tiered(
        itertools.product(WAYS, ("magnitude", "rigl")),
        slow=(("async", "rigl"), ("ape_x", "magnitude")),
    ),
    ids="-".join,
)
def test_it_goes_with_other_ways_to_learn(coordinate, way: tuple[str, str]) -> None:
    preset, pruning = way
    options = (f"--pruning={pruning}", "--sparsity=0.8", "--pruning_changes=4")
    run = ("--cluster=in_process", *WAYS[preset], *options, "--total_env_steps=4000")
    folder, ended = coordinate("run", *run)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    state = newest(folder)
    holds(state)
    # The last change may be due with a push that a run does not make any more.
    assert 3 <= state.mask_number - (pruning == "rigl") <= 4


@pytest.mark.thorough
def test_a_run_that_is_killed_goes_on_with_its_mask(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    flags = (
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", "--num_workers=2", "--num_ps=2"),
        *("--num_envs=16", *SMALL, "--checkpoint_period=0.1", "--pruning=magnitude"),
        *("--pruning_changes=8", "--sparsity=0.9", "--total_env_steps=30000"),
        *("--pruning_start=2000", "--pruning_end=25000"),
    )
    running = processes.start(*flags)
    deadline, state = time.monotonic() + 300, None
    while state is None or state.mask_number < 3:
        assert time.monotonic() < deadline, running.text
        assert running.process.poll() is None, running.text
        time.sleep(0.05)
        try:
            state = newest(tmp_path)
        except (ValueError, UsageError):  # none yet, or gone since it was listed
            continue
    os.kill(running.pid, signal.SIGKILL)
    assert running.ended(60) == -signal.SIGKILL
    before = newest(tmp_path)
    assert 3 <= before.mask_number < 8
    holds(before)
    again = processes.start(*flags, "--resume")
    assert again.ended(300) == 0, again.text
    after = newest(tmp_path)
    holds(after)
    assert after.mask_number == 8
    assert not (after.mask > before.mask).any(), "what is gone does not come back"
    assert np.count_nonzero(after.mask) < np.count_nonzero(before.mask)
