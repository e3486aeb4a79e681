"""With which flags a run goes on that is there already."""

import pathlib

import pytest
from support.command_lines import only_error, parsed

from ps_dqn.coordinator import __main__ as coordinator
from ps_dqn.coordinator import start
from ps_dqn.coordinator.process import Command
from ps_dqn.flags import run_folder
from ps_dqn.run import directory

REMOTE = ("--cluster=remote", "--chief_host=a:1", "--ps_hosts=b:1", "--worker_hosts=c:1")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """What would have been started."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    found: list[Command] = []
    monkeypatch.setattr(start, "start", lambda command: found.append(command) or 0)
    return found


def begun(folder: pathlib.Path, *words: str) -> pathlib.Path:
    (folder / directory.CHECKPOINTS).mkdir(parents=True)
    (folder / directory.CHECKPOINTS / "updates-1.npz").touch()
    (folder / directory.FLAGFILE).write_text(run_folder.as_flagfile(parsed(*words)))
    return folder


@pytest.mark.parametrize("words", [(), REMOTE, ("--total_env_steps=900000", "--gamma=0.9")])
@pytest.mark.parametrize("had", [(), ("--pruning=magnitude",)])
def test_a_run_goes_on(
    tmp_path: pathlib.Path, commands: list[Command], had: tuple[str, ...], words: tuple[str, ...]
) -> None:
    folder = begun(tmp_path / "run", *had)

    assert coordinator.main(["program", f"--run_dir={folder}", *words]) == 0

    [command] = commands
    assert command.config.pruning.is_on == bool(had)


def test_a_class_may_be_imported_from_elsewhere(
    tmp_path: pathlib.Path, commands: list[Command]
) -> None:
    folder = begun(tmp_path / "run", "--env_id=ps_dqn_environment:Paying")
    words = ("--env_id=support.paying_env:Paying", f"--run_dir={folder}")
    assert coordinator.main(["program", *words]) == 0
    assert len(commands) == 1


@pytest.mark.parametrize(
    ("had", "words", "says"),
    [
        ((), "--env_id=Acrobot-v1", "begun with CartPole-v1, and its parameters and scores are of"),
        ((), "--pruning=magnitude", "begun with none, and its mask follows that schedule from the"),
        (("--pruning=rigl",), "--sparsity=0.5", "begun with 0.9, and its mask follows"),
        (("--pruning=rigl",), "--pruning=none", "begun with rigl, and its mask follows"),
    ],
)
def test_a_run_is_what_it_was_begun_as(
    tmp_path: pathlib.Path,
    commands: list[Command],
    capsys: pytest.CaptureFixture,
    had: tuple[str, ...],
    words: str,
    says: str,
) -> None:
    folder = begun(tmp_path / "run", *had)
    before = (folder / directory.FLAGFILE).read_text()

    with pytest.raises(SystemExit) as caught:
        coordinator.main(["program", f"--run_dir={folder}", words])

    assert (caught.value.code, commands) == (2, [])
    said = only_error(capsys.readouterr().err)
    assert f"{words}: the run in {folder} was {says}" in said
    assert (folder / directory.FLAGFILE).read_text() == before
