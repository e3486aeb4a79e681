"""A run of A3C with an LSTM, of what nobody can do who forgets; and what is left of it."""

import csv
import json

import numpy as np
import pytest

from ps_dqn import load


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
