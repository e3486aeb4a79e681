"""Whole runs whose workers compute in fewer digits: what overflows, what is kept, what is left."""

import csv
import json
import pathlib

import numpy as np
import pytest
from support.tiers import tiered

import ps_dqn
from ps_dqn.run import checkpoints

FLAGS = (
    "--num_workers=1",
    "--hidden_sizes=16,16",
    "--value_distribution=none",
    "--num_envs_per_worker=8",
    "--min_replay_size=200",
    "--eval_period=100000",
    "--eval_episodes=2",
    "--confirm_episodes=0",
    "--target_return=inf",
    "--precision=float16",
)
# Every gradient overflows until it has come down.
TOO_LARGE = 2**24


def newest(folder: pathlib.Path) -> checkpoints.Checkpoint:
    return checkpoints.load(max((folder / "checkpoints").glob("updates-*.npz")))


@pytest.mark.parametrize("local_updates", tiered([1, 8], slow=(8,)))
def test_a_run_goes_on_with_the_scale_that_it_came_down_to(coordinate, local_updates) -> None:
    kind = f"--local_updates={local_updates}"
    # Rewards of CartPole are 1, and so are its errors: 1000 of them in one gradient overflow.
    scale = f"--initial_loss_scale={TOO_LARGE}"
    folder, ended = coordinate("run", *FLAGS, kind, scale, "--total_env_steps=1500")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "workers compute in float16, parameters are float32 (--precision)" in ended.stdout
    summary = json.loads((folder / "summary.json").read_text())
    [worker] = summary["workers"].values()
    skipped = worker["updates_skipped"]
    assert skipped >= 3
    assert f"{skipped:,.0f} updates, which overflowed float16" in ended.stdout
    assert summary["updates"] > 2 * skipped
    first = newest(folder)
    assert first.state.loss_scale == TOO_LARGE / 2**skipped
    assert np.isfinite(first.state.online).all()
    assert all(np.isfinite(slot).all() for slot in first.state.slots)
    assert first.state.online.dtype == np.float32
    with (folder / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["train/skipped_updates"]]
    assert sum(float(row["train/skipped_updates"]) for row in rows) == skipped
    # The command says the scale of the beginning again, which is not what it goes on with.
    resumed = (*FLAGS, kind, scale, "--total_env_steps=2500", "--resume")
    folder, ended = coordinate("run", *resumed)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["workers"]["0"]["updates_skipped"] < skipped - 1
    assert newest(folder).state.loss_scale <= first.state.loss_scale
    layers = ps_dqn.load(folder).network.layers
    assert {layer.compute_dtype for layer in layers} == {"float32"}


@pytest.mark.slow
def test_workers_act_in_8_bits_and_learn_in_float32(coordinate) -> None:
    flags = tuple(flag for flag in FLAGS if not flag.startswith("--precision"))
    options = ("--acting_precision=int8", "--overlap=on", "--total_env_steps=1500")
    folder, ended = coordinate("rounded", *flags, *options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = "workers act in int8 while they learn; evaluations are played in float32"
    assert told in ended.stdout
    state = newest(folder).state
    assert state.counters.env_steps >= 1500
    assert np.isfinite(state.online).all()
    assert {layer.compute_dtype for layer in ps_dqn.load(folder).network.layers} == {"float32"}
    assert not any("quantized" in layer.name for layer in ps_dqn.load(folder).network.layers)
