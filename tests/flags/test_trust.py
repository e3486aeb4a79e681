"""Whose folder may say what is imported."""

import os
import pathlib

import numpy as np
import pytest

from ps_dqn.errors import UsageError
from ps_dqn.flags import run_folder
from ps_dqn.run import directory
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters, State

CODE = {
    "--env_module": "their_games",
    "--network": "their_networks:Wide",
    "--env_id": "their_games:Game-v0",
}


def parsed(folder: pathlib.Path, *words: str):
    values = run_folder.new_flags("play")
    run_folder.parse(values, ["program", f"--run_dir={folder}", *words])
    return values


@pytest.fixture
def theirs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder of another user's."""
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    return tmp_path


@pytest.mark.parametrize("flag", CODE)
def test_code_that_another_users_folder_names_is_not_run(theirs: pathlib.Path, flag: str) -> None:
    said = f"{flag}={CODE[flag]}"
    (theirs / directory.FLAGFILE).write_text(said + "\n--trust_run_dir\n")
    with pytest.raises(UsageError) as refused:
        parsed(theirs)
    assert str(refused.value).startswith(f"{said}: is said by {theirs / directory.FLAGFILE}, ")
    assert str(refused.value).endswith("say it again on the command line, or --trust_run_dir")
    for word in (said, "--trust_run_dir"):
        assert parsed(theirs, word)[flag.removeprefix("--")].value == CODE[flag]


def test_what_names_no_code_may_be_anybodys(theirs: pathlib.Path) -> None:
    (theirs / directory.FLAGFILE).write_text("--env_id=Acrobot-v1\n--network=dueling\n--n_step=2\n")
    assert parsed(theirs).env_id == "Acrobot-v1"


def test_arguments_that_evaluations_do_not_have_are_refused(tmp_path: pathlib.Path) -> None:
    lines = '--env_kwargs={"a": 1}\n--eval_env_kwargs={"a": 2}\n'
    (tmp_path / directory.FLAGFILE).write_text(lines)
    assert parsed(tmp_path).eval_env_kwargs == '{"a": 2}'
    assert parsed(tmp_path, '--eval_env_kwargs={"a": 3}').eval_env_kwargs == '{"a": 3}'
    with pytest.raises(UsageError) as refused:
        parsed(tmp_path, '--env_kwargs={"a": 3}')
    assert str(refused.value) == (
        '--env_kwargs={"a": 3}: has no effect, as evaluations of this run have '
        '--eval_env_kwargs={"a": 2}: say that instead'
    )
    (tmp_path / directory.FLAGFILE).write_text('--env_kwargs={"a": 1}\n')
    assert parsed(tmp_path, '--env_kwargs={"a": 3}').env_kwargs == '{"a": 3}'


def test_ones_own_folder_may_name_code(tmp_path: pathlib.Path) -> None:
    (tmp_path / directory.FLAGFILE).write_text("--env_module=my_games\n")
    assert parsed(tmp_path).env_module == "my_games"


def test_the_same_holds_without_a_command_line(theirs: pathlib.Path) -> None:
    (theirs / directory.FLAGFILE).write_text("--env_module=their_games\n--hidden_sizes=3\n")
    (theirs / directory.CHECKPOINTS).mkdir()
    vector = np.arange(5, dtype=np.float32)
    state = State(vector, vector, vector, (), Counters(1, 2, 3, 4, 2))
    Checkpoints(theirs / directory.CHECKPOINTS, keep=1).save_best(state, 1.0, 2.0)
    with pytest.raises(UsageError, match="--env_module=their_games: is said by "):
        run_folder.read(theirs)
    config, checkpoint = run_folder.read(theirs, trust=True)
    assert config.network.hidden_sizes == (3,)
    assert checkpoint.state.average.tolist() == vector.tolist()
    with pytest.raises(UsageError, match="--checkpoint=newest: there is none"):
        run_folder.read(theirs, "newest", trust=True)
    with pytest.raises(UsageError, match="--checkpoint=worst"):
        run_folder.read(theirs, "worst", trust=True)
    with pytest.raises(UsageError, match="is not the folder of a run"):
        run_folder.read(theirs / "no")
