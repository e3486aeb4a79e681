"""A run whose environment is another one by now, or is made otherwise."""

import dataclasses
import pathlib
from typing import Any

import pytest
from support import kinds_of_runs
from support.programs import run_python

from ps_dqn.config import Config
from ps_dqn.environments import interface
from ps_dqn.errors import UsageError
from ps_dqn.evaluator.checkpoint_player import CheckpointPlayer
from ps_dqn.export import observations
from ps_dqn.policy import loading
from ps_dqn.run import signals
from ps_dqn.run.checkpoints import Checkpoints

CAUGHT = "observations are 7×6, 3 actions, and 4 and 3 actions in training: they must be alike"


def changed(config: Config, **values: Any) -> Config:
    return dataclasses.replace(
        config, environment=dataclasses.replace(config.environment, **values)
    )


def test_episodes_are_not_played_in_another_environment(tmp_path: pathlib.Path) -> None:
    config = kinds_of_runs.config("plain")
    written = interface.read(kinds_of_runs.folder(config, tmp_path / "run"))
    for values in ({"env_kwargs": kinds_of_runs.shown("image")}, {"env_id": "CartPole-v1"}):
        with pytest.raises(UsageError, match="in training: they must be alike"):
            CheckpointPlayer(changed(config, **values), 2, 0, written)
    CheckpointPlayer(config, 2, 0, written).close()


def test_what_evaluations_are_made_in_counts(tmp_path: pathlib.Path) -> None:
    config = changed(kinds_of_runs.config("plain"), eval_env_kwargs=kinds_of_runs.shown())
    written = interface.read(kinds_of_runs.folder(config, tmp_path / "run"))
    CheckpointPlayer(
        changed(config, env_kwargs=kinds_of_runs.shown("image")), 2, 0, written
    ).close()
    with pytest.raises(UsageError, match=CAUGHT):
        CheckpointPlayer(
            changed(config, eval_env_kwargs=kinds_of_runs.shown("image")), 2, 0, written
        )


def test_a_checkpoint_of_another_network_is_refused(tmp_path: pathlib.Path) -> None:
    folder = kinds_of_runs.folder(kinds_of_runs.config("plain"), tmp_path / "run")
    found = Checkpoints(folder / "checkpoints", keep=1).find("best")
    wider = kinds_of_runs.config("plain", hidden_sizes=(16, 9))
    player = CheckpointPlayer(wider, 2, 0, None)
    with pytest.raises(UsageError, match="leave out flags that change it"):
        player.play(found)
    player.close()


def test_an_export_is_not_compared_in_another_environment(tmp_path: pathlib.Path) -> None:
    config = kinds_of_runs.config("plain")
    folder = kinds_of_runs.folder(config, tmp_path / "run")
    found = Checkpoints(folder / "checkpoints", keep=1).find("best")
    written = loading.interface_of(config, folder)
    network = loading.network_of(config, written, found)
    other = changed(config, env_kwargs=kinds_of_runs.shown("image"))
    with pytest.raises(UsageError, match=CAUGHT):
        observations.play(other, written, network, found.state.average, 20)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([f"--env_kwargs={kinds_of_runs.shown('image')}"], CAUGHT),
        (['--env_kwargs={"size": 3}'], "cannot be made (TypeError: "),
    ],
    ids=["another one", "none"],
)
@pytest.mark.slow
def test_the_evaluator_says_so_in_one_line(
    flags: list[str], said: str, tmp_path: pathlib.Path
) -> None:
    config = kinds_of_runs.config("plain")
    folder = kinds_of_runs.folder(config, tmp_path / "run")
    env_id, sizes = config.environment.env_id, ",".join(map(str, config.network.hidden_sizes))
    (folder / "flags.txt").write_text(
        f"--env_id={env_id}\n--hidden_sizes={sizes}\n--layer_norm\n--value_distribution=none\n"
    )
    ended = run_python(["-m", "ps_dqn.evaluator", folder, "--episodes=2", *flags], tmp_path)
    assert ended.returncode == signals.WRONG_USAGE, ended.stdout
    [line] = [line for line in ended.stdout.splitlines() if line != "importing TensorFlow"]
    assert line.startswith(f"error: --env_id={env_id}")
    assert said in line
