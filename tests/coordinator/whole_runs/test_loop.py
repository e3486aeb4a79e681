"""Whole runs through the command line."""

import csv
import json
import pathlib
import shutil

import numpy as np
import pytest
from support.catch_env import FLAGS

from ps_dqn.run.checkpoints import load

# Small and quick: compiling costs more than these networks gain.
SMALL = (
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--num_envs_per_worker=8",
    "--local_updates=16",
    "--min_replay_size=200",
    "--eval_episodes=4",
    "--eval_period=2000",
    "--metrics_period=1000",
    "--target_return=inf",
)
# Columns that say how long something took, or how far it was when another thread looked.
CLOCKED = ("rate/", "time/", "wire/pull_ms", "wire/push_ms", "wire/shard_balance", "memory/")
COUNTERS = ("version", "updates", "env_steps", "episodes", "sequential_updates")


def read_rows(folder: pathlib.Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def read_counters(row: dict) -> tuple[int, ...]:
    return tuple(int(row[name]) for name in COUNTERS)


def without_clock(row: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in row.items()
        if name not in ("seconds", "workers/slowest") and not name.startswith(CLOCKED)
    }


def check_agreement(folder: pathlib.Path) -> dict:
    """The summary, once its counters are those of the last row and of the newest checkpoint."""
    summary = json.loads((folder / "summary.json").read_text())
    assert read_counters(summary) == read_counters(read_rows(folder)[-1])
    newest = max((folder / "checkpoints").glob("updates-*.npz"))
    assert read_counters(summary) == tuple(load(newest).state.counters)
    return summary


@pytest.fixture(scope="module")
def finished(coordinate_once) -> pathlib.Path:
    """A run that several tests look at, or go on with a copy of."""
    flags = ("--cluster=in_process", "--num_workers=1", "--total_env_steps=3000")
    folder, ended = coordinate_once("finished", *SMALL, *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


@pytest.fixture
def copied(finished: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(finished, tmp_path / "copied"))


@pytest.mark.slow
def test_a_seed_gives_one_run_and_another_seed_another(coordinate):
    flags = (*SMALL, "--cluster=in_process", "--num_workers=1", "--total_env_steps=6000")
    rows = {}
    # One has an interpreter of its own: what depends on its hash seed would differ.
    for name, seed, is_fresh in (("first", 3, False), ("again", 3, True), ("other", 4, False)):
        folder, ended = coordinate(name, *flags, f"--seed={seed}", is_fresh=is_fresh)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        rows[name] = [without_clock(row) for row in read_rows(folder)]
    # Losses and returns depend on environments, exploration, weights and sampled minibatches, so
    # any of them without a seed shows here.
    assert rows["first"] == rows["again"]
    assert len(rows["first"]) >= 8  # training and evaluation rows
    for column in ("train/td_loss", "train/episode_return", "eval/episode_return"):
        first, other = ([row[column] for row in rows[name]] for name in ("first", "other"))
        assert any(first)
        assert first != other


@pytest.mark.slow
def test_a_toy_environment_is_learned_to_its_optimum(coordinate):
    folder, ended = coordinate(
        "catch",
        *FLAGS,
        "--update_period=4",
        "--min_replay_size=200",
        "--epsilon_decay_steps=4000",
        "--eval_period=1000",
        "--target_return=1",
        "--total_env_steps=60000",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = check_agreement(folder)
    assert summary["reason"] == "solved"
    assert summary["eval_return"] == 1.0
    assert 0.9 < summary["best_eval_return"] <= 1.0  # over further episodes
    assert summary["env_steps"] < 60_000
    evaluations = [row for row in read_rows(folder) if row["eval/episode_return"]]
    assert float(evaluations[0]["eval/episode_return"]) < 1  # there was something to learn
    assert [float(row["eval/episode_return_min"]) for row in evaluations[-3:]] == [1, 1, 1]


def test_processes_leave_everything_a_run_should(coordinate):
    folder, ended = coordinate("cartpole", *SMALL, "--num_workers=2", "--total_env_steps=20000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Finished: total_env_steps reached" in ended.stdout
    summary = check_agreement(folder)
    assert summary["reason"] == "finished"
    assert summary["env_steps"] >= 20_000
    # A round is of two workers' pushes, or of one's while the other evaluates.
    assert 16 * summary["version"] < summary["updates"] <= 32 * summary["version"]
    assert summary["sequential_updates"] == 16 * summary["version"]
    assert summary["episodes"] > 0
    rows = read_rows(folder)
    evaluations = [float(row["eval/episode_return"]) for row in rows if row["eval/episode_return"]]
    confirmed = [float(each) for row in rows if (each := row["eval/confirmed_return"])]
    assert summary["best_eval_return"] == pytest.approx(max(confirmed))
    assert summary["eval_return"] == pytest.approx(evaluations[-1])

    flags = (folder / "flags.txt").read_text().splitlines()
    assert "--hidden_sizes=16,16" in flags
    assert "--num_workers=2" in flags
    assert load(folder / "checkpoints" / "best.npz").eval_return == summary["best_eval_return"]
    assert list((folder / "tensorboard").glob("events.out.tfevents.*"))
    assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    for task in ("worker-0", "worker-1", "ps-0", "coordinator"):
        assert (folder / "logs" / f"{task}.log").exists()


@pytest.mark.slow
def test_the_best_is_worth_what_other_episodes_say(finished):
    # Here, where a seed decides: means of so few episodes may be the same by chance.
    rows = read_rows(finished)
    evaluations, confirmed = (
        [float(row[name]) for row in rows if row[name]]
        for name in ("eval/episode_return", "eval/confirmed_return")
    )
    assert confirmed
    assert evaluations[0] not in confirmed


def test_the_best_network_is_a_keras_model(finished):
    import keras

    model = keras.models.load_model(finished / "best.keras")
    values = np.asarray(model(np.ones((3, 4), np.float32)))
    assert values.shape == (3, 2)
    assert np.isfinite(values).all()
    best = load(finished / "checkpoints" / "best.npz")
    weights = [np.ravel(variable.numpy()) for variable in model.trainable_variables]
    np.testing.assert_array_equal(np.concatenate(weights), best.state.average)


@pytest.mark.slow
def test_several_parameter_servers_and_workers(coordinate):
    flags = ("--num_ps=3", "--num_workers=4", "--total_env_steps=5000")
    folder, ended = coordinate("many", *SMALL, *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    check_agreement(folder)
    assert sorted(path.stem for path in (folder / "logs").glob("*-*.log")) == [
        *(f"ps-{i}" for i in range(3)),
        *(f"worker-{i}" for i in range(4)),
    ]


@pytest.mark.slow
def test_an_in_process_cluster_has_threads_enough_for_its_workers(coordinate):
    flags = ("--cluster=in_process", "--num_workers=3", "--num_ps=2", "--total_env_steps=4000")
    folder, ended = coordinate("threads", *SMALL, *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    check_agreement(folder)


@pytest.mark.parametrize("cluster", ["in_process", "local"])
def test_an_environment_that_always_fails_ends_the_run(coordinate, cluster):
    folder, ended = coordinate(
        "burst",
        *SMALL,
        f"--cluster={cluster}",
        "--num_workers=1",
        "--env_module=support.catch_env",
        "--env_id=tests/Burst-v0",
        "--overlap=off",  # else its first steps are tried out before
    )
    assert ended.returncode == 1
    shown = ended.stdout + ended.stderr
    assert "error: environments of worker 0 failed " in shown
    assert "site-packages/tensorflow" not in shown
    assert "dispatch.py" not in shown
    log = folder / "logs" / ("coordinator.log" if cluster == "in_process" else "worker-0.log")
    assert "RuntimeError: the ball burst" in log.read_text()
    assert "catch_env.py" in log.read_text()
    if cluster == "local":  # whose logs are at hand
        assert "RuntimeError: the ball burst" in shown
    assert json.loads((folder / "summary.json").read_text())["reason"] == "stopped"


@pytest.mark.parametrize("num_ps", [1, 2])
def test_an_environment_that_cannot_be_reset_ends_the_run_with_its_traceback(
    coordinate, tmp_path, num_ps
):
    # The coordinator looks at one, whose reset works; those of a worker fail before all else.
    (tmp_path / "no_ball.py").write_text(
        """
import gymnasium
from support import catch_env


class NoBall(catch_env.Catch):
    resets = 0

    def reset(self, **arguments):
        NoBall.resets += 1
        if NoBall.resets > 1:
            raise RuntimeError("there is no ball")
        return super().reset(**arguments)


gymnasium.register("tests/NoBall-v0", entry_point=NoBall)
"""
    )
    _, ended = coordinate(
        "no_ball",
        *SMALL,
        "--cluster=in_process",
        "--num_workers=1",
        f"--num_ps={num_ps}",
        "--env_module=no_ball",
        "--env_id=tests/NoBall-v0",
        "--overlap=off",
    )
    assert ended.returncode == 1
    shown = ended.stdout + ended.stderr
    assert "error: Python hosted in a worker failed:" in shown
    assert "RuntimeError: there is no ball" in shown


def test_the_same_run_directory_goes_on_where_it_ended(coordinate, copied):
    first, rows = check_agreement(copied), read_rows(copied)
    assert first["env_steps"] < 6000

    # The other flags come from the run directory.
    folder, ended = coordinate(copied.name, "--total_env_steps=6000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    expected = f"resumed at {first['env_steps']:,} env steps, {first['updates']:,} updates"
    assert expected in ended.stdout
    second, all_rows = check_agreement(folder), read_rows(folder)
    assert second["env_steps"] >= 6000
    assert second["updates"] == 16 * second["version"]
    assert second["updates"] > first["updates"]
    assert all_rows[: len(rows)] == rows
    new = all_rows[len(rows) :]
    assert new
    trained = [row for row in all_rows if row["push/applied"]]  # evaluations come later
    versions = [int(row["version"]) for row in trained]
    assert versions == sorted(versions)
    # The first row after it: at most one metrics period further, not from the start again.
    assert first["env_steps"] < int(new[0]["env_steps"]) < first["env_steps"] + 2000
    # Time goes on too.
    assert float(new[0]["seconds"]) > float(rows[-1]["seconds"])


@pytest.mark.slow
def test_replay_in_files_outlives_the_run_however_tasks_are_started(coordinate):
    flags = ("--num_workers=1", "--replay_files", "--replay_capacity=20000")
    kept = [0]
    for session, start in enumerate(
        ("--start_method=spawn", "--start_method=fork", "--cluster=in_process"), start=1
    ):
        folder, ended = coordinate(
            "kept", *SMALL, *flags, f"--total_env_steps={2000 * session}", start
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "replay starts empty" not in ended.stdout
        [where] = (folder / "workers").glob("*-worker-0/replay")
        assert any(where.iterdir())
        sizes = [float(row["replay/size"]) for row in read_rows(folder) if row["replay/size"]]
        # All steps of all sessions so far are in it.
        assert sizes[-1] > kept[-1] + 1500
        kept.append(sizes[-1])


def test_a_run_that_is_over_stays_over(coordinate, copied):
    before = check_agreement(copied)
    _, ended = coordinate(copied.name)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert read_counters(check_agreement(copied)) == read_counters(before)
