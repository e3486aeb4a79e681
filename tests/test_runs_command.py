"""The list of runs: whatever state their folders are in."""

import csv
import io
import json
import os
import pathlib
import socket

import pytest
from support.command_lines import only_error

from ps_dqn import runs as command
from ps_dqn.run import directory, lock

HEADER = "env_steps,seconds,train/episode_return,eval/episode_return\n"
SUMMARY = {
    "reason": "solved",
    "env_steps": 1234,
    "eval_return": 480.5,
    "best_eval_return": 490.0,
    "training_seconds": 12.25,
}


@pytest.fixture(autouse=True)
def runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder of runs, the newest of which is the first by name."""
    monkeypatch.chdir(tmp_path)
    folder = pathlib.Path("runs")
    made = {
        "e-solved": [HEADER + "1000,10,5,400\n", json.dumps(SUMMARY)],
        "d-half": [HEADER + "64,1,3,\n128,2,4,21.5\n192,3,4,11.5\n256,", ""],
        "c-begun": ["", ""],
        "b-damaged": [HEADER + "x,y,z,\n", '{"reason": '],
        "a-odd": ["\0\0", '["reason"]'],
    }
    for age, (name, (metrics, summary)) in enumerate(made.items()):
        (folder / name).mkdir(parents=True)
        presets = f"{directory.BEGAN_WITH}dqn,cartpole\n" if age < 2 else ""
        text = f"{presets}--env_id=CartPole-v1\n--seed={age}\n--noisy\n"
        contents = {directory.FLAGFILE: text, directory.METRICS: metrics}
        for file, content in (contents | {directory.SUMMARY: summary}).items():
            if content:
                (folder / name / file).write_text(content)
                os.utime(folder / name / file, (1_700_000_000 + 60 * age,) * 2)
    (folder / "a-odd" / directory.FLAGFILE).write_bytes(b"\xff\xfe--env_id")
    (folder / "no-run").mkdir()
    return folder


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert command.main(["runs", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    heading, *lines = printed(capsys).splitlines()
    assert [line.split()[0] for line in lines] == [
        *("runs/e-solved", "runs/d-half", "runs/c-begun", "runs/b-damaged", "runs/a-odd")
    ]
    assert all(line == line.rstrip() for line in [heading, *lines])
    solved, half, begun = (line.split() for line in lines[:3])
    assert solved[:9] == [
        *("runs/e-solved", "CartPole-v1", "dqn,cartpole", "0", "1,234", "480.5", "490.0"),
        *("solved", "12.2"),
    ]
    assert half[4:10] == ["192", "11.5", "21.5", "cut", "off", "3.0"]
    assert begun[2:9] == ["-", "2", "-", "-", "-", "cut", "off"]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_same_for_programs(capsys: pytest.CaptureFixture[str], form: str) -> None:
    text = printed(capsys, f"--format={form}", "runs")
    found = json.loads(text) if form == "json" else list(csv.DictReader(io.StringIO(text)))
    assert [row["ended"] for row in found] == ["solved", *["cut off"] * 2, *["damaged"] * 2]
    assert [float(row["env_steps"] or 0) for row in found] == [1234, 192, 0, 0, 0]
    assert float(found[1]["best_eval_return"]) == 21.5
    assert found[0]["presets"] == "dqn,cartpole"
    assert not found[2]["presets"]
    assert [row["seed"] for row in found[:4]] == ["0", "1", "2", "3"]
    assert len({row["when"] for row in found}) == len(found)


def test_a_run_that_goes_on_is_said_to(
    runs: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "c-begun" / lock.LOCK).write_text(f"{os.getpid()} {socket.gethostname()}\n")
    assert printed(capsys, "runs/c-begun").splitlines()[1].split()[7:9] == ["goes", "on"]


def test_a_run_that_cannot_be_read_hides_no_other(
    runs: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What root cannot read, either.
    (runs / "f-theirs").mkdir()
    (runs / "f-theirs" / directory.FLAGFILE).symlink_to(directory.FLAGFILE)
    (runs / "e-solved" / directory.METRICS).unlink()
    (runs / "e-solved" / directory.METRICS).mkdir()
    theirs, *others = json.loads(printed(capsys, "--format=json"))
    assert theirs == {**dict.fromkeys(theirs), "run": "runs/f-theirs", "ended": "unreadable"}
    assert len(others) == 5
    known = next(row for row in others if row["run"] == "runs/e-solved")
    assert (known["env_id"], known["ended"]) == ("CartPole-v1", "unreadable")
    assert "runs/f-theirs" in printed(capsys)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gone"], "gone: is no folder"),
        (["runs/no-run"], "runs/no-run: there is no run in it"),
        (["--format=xml"], "flag --format=xml: value should be one of <table|csv|json>"),
    ],
)
def test_mistakes(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["runs", *words])
    assert caught.value.code == 2
    assert only_error(capsys.readouterr().err).startswith(says)
