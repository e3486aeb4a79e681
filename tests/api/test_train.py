"""Training by a call: what it returns, how it is stopped, and that it can be called again."""

import concurrent.futures
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import gymnasium
import numpy as np
import pytest
from support.programs import processes_that_mention

from ps_dqn import Measures, Run, UsageError, load, train
from ps_dqn.run import directory

SHORT = {
    "num_workers": 1,
    "num_envs_per_worker": 4,
    "hidden_sizes": (16, 16),
    "local_updates": 8,
    "min_replay_size": 64,
    "jit_compile": "none",
    "eval_episodes": 1,
    "eval_period": 1000,
    "metrics_period": 500,
    "target_return": float("inf"),
    "seed": 3,
}


class Both(NamedTuple):
    """A run that was stopped, and the same once it had gone on."""

    stopped: Run
    rows: list[Measures]  # that the callback was given
    resumed: Run
    further: list[Measures]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("train")
    rows: list[Measures] = []
    further: list[Measures] = []

    def at_the_first_evaluation(measures: Measures) -> bool:
        rows.append(measures)
        return measures.eval_return is not None

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("WANDB_MODE", "offline")
        stopped = train(
            "CartPole-v1",
            preset="cartpole",
            callback=at_the_first_evaluation,
            verbose=False,
            total_env_steps=10_000_000,
            track="wandb",
            **SHORT,
        )
        # Read now: what goes on has other files.
        assert stopped.metrics
        assert stopped.summary
        end = stopped.metrics[-1].env_steps + 2000
        # From a thread, where signals cannot be handled.
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            resumed = executor.submit(
                train, callback=further.append, resume=True, total_env_steps=end, verbose=False
            ).result()
        yield Both(stopped, rows, resumed, further)


@pytest.mark.slow
def test_a_callback_that_returns_true_stops_the_run_in_good_order(both: Both) -> None:
    run = both.stopped
    assert run.outcome == "stopped"
    assert not run.solved
    assert directory.has_checkpoint(run.directory)
    assert processes_that_mention(str(run.directory.relative_to(pathlib.Path.cwd()))) == []


def test_a_callback_is_given_each_row(both: Both) -> None:
    assert both.rows == both.stopped.metrics[: len(both.rows)]
    assert [row.eval_return is None for row in both.rows] == [True] * (len(both.rows) - 1) + [False]
    last = both.rows[-1]
    assert 1000 <= last.env_steps < 10_000_000
    assert last.updates > 0
    assert last.seconds > 0
    assert last.by_name["eval/episode_return_max"] == last.eval_return
    assert any(row.train_return is not None for row in both.rows)


def test_options_are_as_they_were_said(both: Both) -> None:
    flags = (both.stopped.directory / directory.FLAGFILE).read_text().splitlines()
    for flag in ("--hidden_sizes=16,16", "--seed=3", "--num_workers=1", "--target_return=inf"):
        assert flag in flags
    assert "--gamma=0.98" in flags, "the preset says so"
    assert "--eval_period=1000" in flags, "what is said wins over the preset"


def test_a_run_is_resumed_with_its_own_options(both: Both) -> None:
    run = both.resumed
    assert run.directory == both.stopped.directory
    assert run.outcome == "finished"
    assert run.summary["seed"] == 3
    assert run.summary["env_steps"] > both.stopped.summary["env_steps"]


def test_a_run_is_tracked_whenever_it_goes_on(both: Both) -> None:
    name = (both.stopped.directory / directory.IDENTITY).read_text().strip()
    assert len(list(both.stopped.directory.glob(f"wandb/offline-run-*/run-{name}.wandb"))) == 2


def test_a_callback_hears_of_new_rows_alone(both: Both) -> None:
    assert both.further == both.resumed.metrics[-len(both.further) :]
    assert len(both.resumed.metrics) > len(both.further)
    assert min(row.env_steps for row in both.further) >= both.rows[-1].env_steps


def test_a_run_has_its_metrics_by_name(both: Both) -> None:
    run = both.resumed
    env_steps, _ = run.curve("eval/episode_return")
    assert run.curve("eval/confirmed_return")[1].max() == run.best
    assert (np.diff(env_steps) > 0).all()
    with pytest.raises(UsageError, match=r"rewards: is not measured; there are .*train/td_loss"):
        run.curve("rewards")
    assert repr(run).startswith("<Run CartPole-v1-")
    assert "finished" in repr(run)


@pytest.mark.slow
def test_an_exception_in_a_callback_ends_the_run_and_comes_out(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as Jupyter does

    class Walk(gymnasium.Env):
        """Defined here, so that no other process can import it."""

        observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = 0
            return np.zeros(2, np.float32), {}

        def step(self, action):
            self.place += 1
            return (
                np.full(2, self.place / 10, np.float32),
                float(action),
                self.place == 9,
                False,
                {},
            )

    def fail(measures: Measures) -> None:
        raise LookupError("a mistake in the callback")

    with pytest.raises(LookupError, match="a mistake in the callback"):
        train(Walk, run_dir=tmp_path / "walk", callback=fail, total_env_steps=10**7, **SHORT)
    run = Run(tmp_path / "walk")
    assert run.outcome == "stopped"
    assert directory.has_checkpoint(run.directory)
    assert run.summary["env_id"] == "ps_dqn_environment:Walk"
    assert processes_that_mention(str(tmp_path)) == []
    said = capsys.readouterr().out
    assert "ps_dqn_environment:Walk: observations 2, 2 actions; 1 worker" in said
    assert "everything is in" in said
    assert "\x1b" not in said, "it is no terminal"


def test_what_was_trained_is_loaded_to_act(both: Both) -> None:
    policy = load(both.resumed.directory, checkpoint="newest")
    observations = np.zeros((3, 4), np.float32)
    assert policy.q_values(observations).shape == (3, 2)
    assert policy.act(observations[0]) in (0, 1)
