"""Runs that learn from a file of transitions, through the command line."""

import csv
import json
import pathlib

import numpy as np
import pytest
from support.catch_env import FLAGS, Catch
from support.tiers import tiered

from ps_dqn import environments
from ps_dqn.config import Config
from ps_dqn.coordinator.checks import demonstrated
from ps_dqn.errors import UsageError
from ps_dqn.replay import budget

CATCH = (*FLAGS, "--seed=1")


def caught(path: pathlib.Path, episodes: int, share_random: float) -> None:
    """Writes what somebody did who mostly moves to where the ball is."""
    env, rng = Catch(), np.random.default_rng(5)
    rows = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        is_over = False
        while not is_over:
            action = int(np.sign(env._column - env._paddle)) + 1
            if rng.random() < share_random:
                action = int(rng.integers(3))
            following, reward, is_over, _, _ = env.step(action)
            rows.append((observation, action, reward, is_over))
            observation = following
    names = ("observations", "actions", "rewards", "terminated")
    arrays = {
        name: np.array(each) for name, each in zip(names, zip(*rows, strict=True), strict=True)
    }
    np.savez(path, **arrays)  # type: ignore[arg-type]


def evaluations(folder: pathlib.Path) -> list[float]:
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [float(row["eval/episode_return"]) for row in rows if row["eval/episode_return"]]


@pytest.mark.parametrize(
    "more",
    tiered([(), ("--cql_alpha=0.1", "--replay=prioritized")], slow=((),)),
)
def test_a_toy_environment_is_learned_from_random_play_alone(coordinate, tmp_path, more) -> None:
    caught(tmp_path / "random.npz", episodes=2000, share_random=1.0)
    folder, ended = coordinate(
        "run",
        *CATCH,
        *more,
        f"--demonstrations={tmp_path / 'random.npz'}",
        "--offline",
        "--update_period=4",
        "--eval_period=4000",
        "--target_return=1",
        "--total_env_steps=60000",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reason"] == "solved"
    assert summary["episodes"] == 0
    assert evaluations(folder)[-1] == 1
    assert "8,000 transitions of 2,000 episodes" in ended.stdout
    assert "they alone are learned from (--offline)" in ended.stdout


@pytest.mark.slow
def test_good_demonstrations_bring_the_first_policies_forward(coordinate, tmp_path) -> None:
    # The margin makes it an imitation, where there is too little experience of its own.
    caught(tmp_path / "shown.npz", episodes=200, share_random=0.0)
    few = (*CATCH, "--update_period=0.5", "--min_replay_size=100", "--total_env_steps=800")
    few = (*few, "--eval_period=800", "--target_return=inf", "--epsilon_decay_steps=100%")
    alone, ended = coordinate("alone", *few)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown, ended = coordinate(
        "shown",
        *few,
        f"--demonstrations={tmp_path / 'shown.npz'}",
        "--demonstration_share=0.5",
        "--demonstration_loss=1",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "50% of each minibatch are of them" in ended.stdout
    assert evaluations(shown)[-1] > evaluations(alone)[-1]


def test_a_file_that_cannot_be_learned_from_is_refused_before_anything_starts(
    coordinate, tmp_path
) -> None:
    np.savez(tmp_path / "shown.npz", observations=np.zeros((5, 4)), actions=np.zeros(5, int))
    folder, ended = coordinate("run", f"--demonstrations={tmp_path / 'shown.npz'}")
    assert ended.returncode == 2
    assert ended.stderr.strip() == (
        f"error: --demonstrations={tmp_path / 'shown.npz'}: has no array rewards, but "
        f"observations, actions: add it"
    )
    assert not folder.exists()


def test_more_than_the_workers_can_keep_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught(tmp_path / "shown.npz", episodes=10, share_random=1.0)
    options = {"demonstrations": str(tmp_path / "shown.npz"), "env_id": "tests/Catch-v0"}
    config = Config.from_values(options)
    environment = environments.describe(config.environment)
    kept = 40 * 25 * 4
    most = 2 * 2 * kept  # of two workers, what is read and what is kept
    for room, is_enough in ((most, True), (most - 1, False)):
        limit = budget.Limit(room, "bytes of this test")
        monkeypatch.setattr(budget, "available", lambda limit=limit: limit)
        if is_enough:
            assert demonstrated.read(config, environment, 2)
            continue
        with pytest.raises(UsageError, match=r"take 15\.6 KiB while 2 workers read them"):
            demonstrated.read(config, environment, 2)
