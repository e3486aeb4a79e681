"""How this project answers as a peer."""

import json
import pathlib

import ours
import pytest
from protocol import PONG, TARGETS, arguments
from support.command_lines import parsed
from support.programs import ROOT, run_python

from ps_dqn.flags import experiment

WORDS = ["--seed=1", "--env_steps=1000", "--eval_period=100", "--started=0"]
METRICS = """env_steps,updates,seconds,eval/episode_return
1000,0,1,
2000,10,2.5,
2000,0,1.5,20.5
3000,40,7,
5000,100,8,
9000,220,10,
"""


def written(folder: pathlib.Path) -> pathlib.Path:
    (folder / "metrics.csv").write_text(METRICS)
    return folder


def test_rates_begin_behind_the_warm_up(tmp_path: pathlib.Path) -> None:
    rows = ours.rows(written(tmp_path), "seconds")
    # Updates from 2.5 s: from 7.5 s on it counts, which is the row of 8 s.
    assert ours.rates(rows, warm_up=5.0) == {
        "env_steps_per_second": 2000,
        "updates_per_second": 60,
        "measured_seconds": 2,
    }
    with pytest.raises(SystemExit, match="before its rates"):
        ours.rates(rows, warm_up=7.5)


def test_evaluations_are_told_with_the_time_from_the_command(tmp_path: pathlib.Path) -> None:
    (said,) = ours.evaluations(written(tmp_path), start_seconds=3.0)
    assert said == {
        "env_steps": 2000,
        "updates": 0,
        "seconds": 1.5,
        "eval_seconds": 0.0,
        "command_seconds": 4.5,
        "eval_return": 20.5,
    }


def test_a_run_without_metrics_has_no_rows(tmp_path: pathlib.Path) -> None:
    assert ours.rows(tmp_path, "seconds") == []


def test_bytes_of_a_transition_are_what_the_run_says() -> None:
    said = "each worker's replay: up to 10,000 transitions in 1.5 MiB, frames compressed by lz4"
    assert ours.bytes_per_transition(said) == 1.5 * 2**20 / 10_000
    assert ours.bytes_per_transition("nothing") is None


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("env_id", ["CartPole-v1", PONG])
def test_what_is_the_same_for_all_is_asked_of_ours(env_id: str, workers: int) -> None:
    same = ours.SAME[env_id]
    words = [*WORDS, f"--env_id={env_id}", "--rate_seconds=5", f"--workers={workers}"]
    config = experiment.read(parsed(*ours.flags(arguments(words))))
    assert config.learning.batch_size == same.batch_size
    assert tuple(config.network.hidden_sizes) == same.hidden
    # Each worker makes an update for the steps of all, so often: one for each period in all.
    assert config.parameter_server.update_period / workers == same.update_period
    assert not config.network.layer_norm
    assert config.value.value_distribution == "none"
    assert config.network.network == ("nature" if env_id == PONG else "mlp")


@pytest.mark.parametrize("env_id", ours.SCORED)
def test_scores_are_those_of_the_preset(env_id: str) -> None:
    words = [*WORDS, f"--env_id={env_id}", "--until_solved"]
    config = experiment.read(parsed(*ours.flags(arguments(words))))
    preset = experiment.read(parsed(f"--preset={ours.SCORED[env_id]}"))
    assert config.learning == preset.learning
    assert config.network == preset.network
    assert config.run.target_return == TARGETS[env_id]


@pytest.mark.slow
def test_rates_of_a_run_are_measured() -> None:
    words = ["--env_id=CartPole-v1", "--seed=1", "--env_steps=100000000", "--eval_period=1000"]
    words += ["--started=0", "--rate_seconds=15"]
    ended = run_python(["benchmarks/peers/ours.py", *words], ROOT)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["measured_seconds"] >= 15
    # The ratio that was asked for, but for what was on its way at either end: a push of 64 updates,
    # of which a busy machine makes one in a second.
    assert 3 < said["env_steps_per_second"] / said["updates_per_second"] < 5
    assert 20 < said["bytes_per_transition"] < 60
