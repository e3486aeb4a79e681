"""Which runs words name."""

import pathlib

import pytest
from support.made_runs import make

from ps_dqn.errors import UsageError
from ps_dqn.run import finding


def test_runs_are_found_by_their_names_and_below_folders(tmp_path: pathlib.Path) -> None:
    one, two = make(tmp_path / "a" / "one"), make(tmp_path / "a" / "deep" / "two")
    (one / "workers" / "copy").mkdir(parents=True)
    (one / "workers" / "copy" / "flags.txt").touch()  # a run's own business
    other = make(tmp_path / "b")

    assert finding.runs([str(other), str(tmp_path / "a"), str(one)]) == [other, two, one]


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "no run is named"), (["nowhere"], "is no folder"), (["."], "there is no run in it")],
)
def test_what_names_no_run_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        finding.runs(words)


def test_one_run_is_one(tmp_path: pathlib.Path) -> None:
    run = make(tmp_path / "runs" / "a")
    assert finding.one([str(tmp_path)]) == run
    make(tmp_path / "runs" / "b")
    with pytest.raises(UsageError, match="one run at a time, and there are 2"):
        finding.one([str(tmp_path)])
