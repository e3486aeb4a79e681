"""Whose folder may say what is imported."""

import os
import pathlib

import pytest

from ps_dqn.errors import UsageError
from ps_dqn.flags import run_folder
from ps_dqn.run import directory

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


def test_ones_own_folder_may_name_code(tmp_path: pathlib.Path) -> None:
    (tmp_path / directory.FLAGFILE).write_text("--env_module=my_games\n")
    assert parsed(tmp_path).env_module == "my_games"
