"""Runs of A3C: with an LSTM, of what nobody can do who forgets; of two workers; resumed."""

import csv
import json

import numpy as np
import pytest
from support.states import newest

from ps_dqn import load

SMALL = (
    *("--preset=a3c", "--num_envs=16", "--hidden_sizes=16,16", "--jit_compile=none"),
    *("--eval_episodes=4", "--confirm_episodes=0", "--target_return=inf"),
)


@pytest.mark.slow
def test_a_policy_is_learned_and_loaded(coordinate) -> None:
    folder, ended = coordinate(
        "recall",
        "--preset=a3c",
        "--cluster=in_process",
        "--num_workers=1",
        "--env_module=support.recall_env",
        "--env_id=tests/Recall-v0",
        "--recurrent_size=16",
        "--hidden_sizes=32,32",
        "--jit_compile=none",
        "--num_envs=16",
        "--update_period=128",
        "--batch_size=128",
        "--learning_rate=1e-2",
        "--average_decay=0.9",
        "--metrics_period=1000",
        "--eval_period=2000",
        "--eval_episodes=20",
        "--target_return=1",
        "--total_env_steps=60000",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reason"] == "solved", ended.stdout
    assert summary["eval_return"] == 1
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    entropies = [float(row["train/entropy"]) for row in rows if row["train/entropy"]]
    assert 0 < min(entropies) < max(entropies) <= np.log(2) + 1e-6, "of two actions"

    policy = load(folder)
    assert set(policy.network.output) == {"action", "logits", "next_state"}
    with pytest.raises(ValueError, match=r"Policy.q_values: .* none, but Policy.logits"):
        policy.q_values(np.zeros(4, np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["local", "in_process"])
def test_two_workers_learn_while_they_collect(coordinate, cluster: str) -> None:
    workers = f"--cluster={cluster}", "--num_workers=2", "--overlap=on", "--v_trace"
    folder, ended = coordinate("two", *SMALL, *workers, "--total_env_steps=6000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reason"] == "finished"
    made = [summary["workers"][worker] for worker in ("0", "1")]
    assert all(row["updates_made"] > 0 and row["env_steps_made"] > 0 for row in made)
    assert sum(row["updates_made"] for row in made) == summary["updates"]
    state = newest(folder)
    assert len(state.slots) == 1, "the means of squares"
    assert state.slots[0].min() >= 0 < state.slots[0].max()
    assert np.isfinite(state.online).all()


@pytest.mark.slow
def test_a_run_is_resumed_with_the_means_of_squares_that_it_had(coordinate) -> None:
    run = (*SMALL, "--cluster=in_process", "--num_workers=1", "--num_ps=2")
    folder, ended = coordinate("resumed", *run, "--total_env_steps=3000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    [path] = (folder / "checkpoints").glob("updates-*.npz")
    before, written = newest(folder), path.stat().st_mtime_ns
    assert before.slots[0].max() > 0

    # It is over: what servers were given is saved again as they have it, by another number of them.
    _, ended = coordinate("resumed", "--num_ps=1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert path.stat().st_mtime_ns > written
    again = newest(folder)
    assert again.counters == before.counters
    np.testing.assert_array_equal(again.slots, before.slots)
    np.testing.assert_array_equal(again.online, before.online)

    _, ended = coordinate("resumed", "--total_env_steps=6000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    after = newest(folder)
    assert after.counters.env_steps >= 6000
    assert after.counters.updates > before.counters.updates
    assert after.begun_at == before.begun_at == 0, "the means go on"
    assert not np.array_equal(after.slots, before.slots)
