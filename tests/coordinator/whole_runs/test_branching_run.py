"""A run whose actions are far more than a network could have values of."""

import json

import pytest


@pytest.mark.slow
def test_every_part_of_many_actions_is_learned(coordinate) -> None:
    folder, ended = coordinate(
        "locks",
        "--cluster=in_process",
        "--num_workers=1",
        "--env_module=support.locks_env",
        "--env_id=tests/Locks-v0",
        "--branching",
        "--gamma=0.5",
        "--n_step=1",
        "--hidden_sizes=64,64",
        "--jit_compile=none",
        "--update_period=4",
        "--epsilon_decay_steps=6000",
        "--eval_period=3000",
        "--target_return=8",
        "--total_env_steps=40000",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "15,625 actions (5×5×5×5×5×5), whose parts are chosen one by one" in ended.stdout
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reason"] == "solved"
    assert summary["eval_return"] == 8
