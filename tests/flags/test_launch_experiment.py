"""`python -m ps_dqn.launch k8s`: the experiment is one that the coordinator would run."""

import pathlib

import pytest

from ps_dqn import launch

COUNTS = ("--workers=3", "--ps=2", "--image=ps-dqn:1")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that commands are called in, with a flagfile in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.flags").write_text("--gamma=0.9")


def _refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a command line is refused with."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        launch.main(["launch", "k8s", *words])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    return err


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("--gama=0.9", "--gama=0.9: there is no such flag; did you mean --gamma?"),
        ("--gamma=2", "--gamma=2.0: must be 1.0 or less"),
        ("--gamma=high", "flag --gamma=high"),
        ("gamma 0.9", "'gamma 0.9' is not a flag"),
        ("--num_workers=9", "may have the experiment's flags alone"),
        ("--run_dir=/runs/x", "--run_dir=/runs/x: there is no such flag"),
        ("--flagfile=other.flags", "reads another flagfile"),
        ("--aggregation=sync\n--backup_workers=3", "--backup_workers=3: must be less than"),
        ("--double_dqn\n--target_update_period=0", "there is one network only"),
        ("\udcff", "is not text in UTF-8"),
    ],
)
def test_an_experiment_that_the_coordinator_would_refuse_is_refused(
    lines: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = pathlib.Path("bad.flags")
    path.write_bytes(lines.encode(errors="surrogateescape"))
    refusal = _refusal(capsys, "--name=mine", *COUNTS, f"--flagfile={path}")
    assert refusal.startswith("error: --flagfile=bad.flags: ")
    assert says in refusal
    assert not pathlib.Path("launch").exists()


@pytest.mark.parametrize("words", [[], ["--gamma=0.9"], ["--flagfile=my.flags"]])
def test_a_run_of_nothing_in_particular_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = _refusal(capsys, "--name=pong", *COUNTS, *words)
    assert "--env_id is missing: say what to train on" in refusal
    assert not pathlib.Path("launch").exists()
