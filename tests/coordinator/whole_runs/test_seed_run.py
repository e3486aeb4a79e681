"""A run of learners that infer for actors without a network, and what is left of it."""

import csv
import json

import pytest
from support.resuming import resumed

ENVS, LEAST, PERIOD, UPDATES = 8, 200, 4, 8
SMALL = (
    *("--topology=seed", "--cluster=in_process", "--num_actors=3", f"--num_envs={ENVS}"),
    *(f"--update_period={PERIOD}", f"--local_updates={UPDATES}", "--batch_size=16"),
    *(f"--min_replay_size={LEAST}", "--hidden_sizes=16,16", "--jit_compile=none"),
    *("--total_env_steps=3000", "--target_return=inf", "--metrics_period=500"),
    *("--eval_period=1500", "--eval_episodes=2", "--confirm_episodes=0"),
)


@pytest.mark.parametrize(
    ("learners", "flags"),
    [
        (1, ("--replay=prioritized", "--n_step=3")),
        pytest.param(
            *(2, ("--preset=r2d2", "--recurrent_size=8", "--burn_in=2", "--sequence_length=4")),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a learner", "recurrent learners"],
)
def test_a_run_of_actors_and_learners(coordinate, learners: int, flags: tuple[str, ...]) -> None:
    folder, ended = coordinate("seed", *flags, *SMALL, f"--num_learners={learners}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    envs = ENVS // learners
    said = f"3 actors, {learners} learner{'s' * (learners > 1)} × {envs} environments"
    assert said in ended.stdout

    summary = json.loads((folder / "summary.json").read_text())
    steps = summary["env_steps"]
    assert summary["reason"] == "finished"
    # Nothing is learned of the step that begins another episode, but actors take it.
    taken = steps + summary["episodes"]
    by_worker = [summary["workers"][str(worker)] for worker in range(learners)]
    # One learner may be ahead of the other, by as much as its actors were.
    updates = sum(row["updates_made"] for row in by_worker) / learners
    assert updates == pytest.approx((taken - LEAST) / PERIOD, abs=3 * UPDATES)
    assert all(row["env_steps_made"] > 0 and row["updates_made"] > 0 for row in by_worker)
    # What is made while the last push is learned is in no push.
    beyond = sum(row["env_steps_made"] for row in by_worker) - steps
    assert 0 <= beyond <= learners * (PERIOD * UPDATES + ENVS)
    assert all(1 <= row["inference_batch_size"] <= envs for row in by_worker)
    assert all(row["inference_latency_ms_max"] > 0 for row in by_worker)

    assert "environments at once; actors waited" in ended.stdout

    with (folder / "metrics.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["inference/batch_size"]]
    assert float(rows[-1]["inference/actors"]) <= 3 / learners + 1
    assert float(rows[-1]["inference/latency_ms"]) > 0
    assert float(rows[-1]["inference/per_second"]) > 0


@pytest.mark.slow
def test_a_run_that_is_resumed_counts_each_step_once(coordinate) -> None:
    flags = (*SMALL, "--replay=prioritized")
    folder, first, second, _ = resumed(coordinate, "resumed", 6000, *flags)
    steps = first["env_steps"]
    # Of its second process, and there is no push of what is made while the last one is learned.
    beyond = steps + second["workers"]["0"]["env_steps_made"] - second["env_steps"]
    assert 0 <= beyond <= PERIOD * UPDATES + ENVS
    with (folder / "metrics.csv").open(newline="") as file:
        counted = [int(row["env_steps"]) for row in csv.DictReader(file)]
    assert counted == sorted(counted)
    assert counted[0] < steps < counted[-1] == second["env_steps"]
