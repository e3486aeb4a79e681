"""`python -m ps_dqn.launch k8s`: the experiment is one that the coordinator would run."""

import pathlib

import pytest
from support.programs import ROOT
from support.refusals import not_launched

COUNTS = ("--workers=3", "--ps=2", "--image=ps-dqn:1")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that commands are called in, with a flagfile in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.flags").write_text("--gamma=0.9")


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
    refusal = not_launched(capsys, "--name=mine", *COUNTS, f"--flagfile={path}")
    assert refusal.startswith("error: --flagfile=bad.flags: ")
    assert says in refusal
    assert not pathlib.Path("launch").exists()


@pytest.mark.parametrize("words", [[], ["--gamma=0.9"], ["--flagfile=my.flags"]])
def test_a_run_of_nothing_in_particular_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = not_launched(capsys, "--name=pong", *COUNTS, *words)
    assert "--env_id is missing: say what to train on" in refusal
    if not words:
        assert refusal in (ROOT / "docs" / "kubernetes.md").read_text()
    assert not pathlib.Path("launch").exists()


@pytest.mark.parametrize("preset", ["cartpole", "seed,cartpole", "ape_x,cartpole"])
def test_the_workers_are_asked_for_first(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    refusal = not_launched(
        capsys, "--name=mine", "--ps=1", "--image=ps-dqn:1", f"--preset={preset}"
    )
    assert refusal.startswith("error: --workers is missing; it says: Workers (pods); with ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--preset=seed,cartpole"], "error: --workers=3: with --topology=seed the workers are"),
        (["--preset=ape_x,cartpole"], "error: --workers=3: with --topology=apex, workers are the"),
        (
            ["--env_id=CartPole-v1", "--aggregation=sync", "--backup_workers=3"],
            "error: --backup_workers=3: must be less than --workers=3",
        ),
        (["--num_workers=3"], "--num_workers=3: there is no such flag; did you mean --workers?"),
        (["--num_ps=3"], "--num_ps=3: there is no such flag; did you mean --ps?"),
        (["--num_replay_servers=3"], "did you mean --replay_servers?"),
    ],
)
def test_counts_are_called_as_they_are_here(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in not_launched(capsys, "--name=mine", *COUNTS, *words)


def test_counts_in_a_flagfile_are_called_as_they_are_here(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pathlib.Path("local.flags").write_text("--env_id=CartPole-v1\n--num_workers=9\n")
    refusal = not_launched(capsys, "--name=mine", *COUNTS, "--flagfile=local.flags")
    assert "--num_workers=9: there is no such flag; did you mean --workers?" in refusal
