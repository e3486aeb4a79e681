"""The folder of a run before it begins: its name where nobody names it, and what is undone."""

import pathlib

import pytest
from rich.console import Console

from ps_dqn.coordinator import __main__ as coordinator
from ps_dqn.coordinator.process import Prepared
from ps_dqn.run import directory


def test_one_that_another_run_has_taken_meanwhile_gets_another_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken, begun = directory.RUNS / "now", list[Prepared]()
    monkeypatch.chdir(tmp_path)
    directory.create(taken)
    monkeypatch.setattr(directory, "new_path", lambda env_id: taken)
    monkeypatch.setattr("ps_dqn.run.terminal.redirect_to", lambda log: Console(width=200))
    monkeypatch.setattr("ps_dqn.coordinator.process.run", lambda made: begun.append(made) or 0)
    assert coordinator.main(["train"]) == 0
    [prepared] = begun
    other = directory.RUNS / "now-2"
    assert prepared.command.folder == other
    assert prepared.log.parent == other / directory.LOGS
    assert f"run directory {other}" in capsys.readouterr().out.splitlines()
    assert (other / directory.FLAGFILE).exists()
    assert not (taken / directory.FLAGFILE).exists()


def test_whatever_stops_it_leaves_no_half_made_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(folder: pathlib.Path) -> None:
        raise LookupError("a mistake of ours")

    monkeypatch.setattr("ps_dqn.run.provenance.write", breaks)
    with pytest.raises(LookupError):
        coordinator.main(["train", f"--run_dir={tmp_path / 'run'}"])
    assert list(tmp_path.iterdir()) == []
