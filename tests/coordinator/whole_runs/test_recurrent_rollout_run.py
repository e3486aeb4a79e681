"""A run of recurrent PQN, of what nobody can do who forgets."""

import json


def test_what_was_seen_is_remembered_by_pqn(coordinate) -> None:
    folder, ended = coordinate(
        "recall",
        "--preset=pqn",
        "--cluster=in_process",
        "--num_workers=1",
        "--env_module=support.recall_env",
        "--env_id=tests/Recall-v0",
        "--recurrent_size=16",
        "--dueling",
        "--hidden_sizes=32,32",
        "--jit_compile=none",
        "--num_envs=16",
        "--update_period=16",
        "--local_updates=8",
        "--batch_size=32",
        "--learning_rate=3e-3",
        "--epsilon_decay_steps=4000",
        "--average_decay=0.99",
        "--eval_period=2000",
        "--eval_episodes=20",
        "--target_return=1",
        "--total_env_steps=60000",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reason"] == "solved", ended.stdout
    assert summary["eval_return"] == 1
