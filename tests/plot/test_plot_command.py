"""`python -m ps_dqn.plot`, on folders that hold what runs leave."""

import csv
import io
import pathlib

import pytest
from matplotlib import image
from support.command_lines import only_error
from support.made_runs import evaluations, make

from ps_dqn.plot import __main__ as plot


@pytest.fixture
def runs(tmp_path: pathlib.Path) -> pathlib.Path:
    """Six runs of two settings."""
    for rate in ("0.001", "0.0003"):
        for seed in range(3):
            returns = (20.0, 1500.0 + seed, 4000.0 if rate == "0.001" else 2000.0)
            flags = f"--learning_rate={rate}", f"--seed={seed}"
            make(tmp_path / "runs" / f"{rate}-{seed}", *flags, rows=evaluations(*returns))
    make(tmp_path / "runs" / "begun", "--seed=9")  # and has measured nothing yet
    return tmp_path / "runs"


def test_a_picture_and_a_table(
    runs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "scores.png"

    assert plot.main(["plot", str(runs), f"--output={target}"]) == 0

    height, width, _ = image.imread(target).shape
    assert width > 2 * height  # two panels
    shown = capsys.readouterr().out
    assert "learning_rate=0.0003" in shown
    assert "4,000 [4,000, 4,000]" in shown
    assert "3 seeds" in shown
    assert shown.endswith(f"drawn into {target}\n")


def test_what_is_written_in_a_picture(runs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "scores.svg"
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):  # text stays text
        plot.main(["plot", str(runs), f"--output={target}", "--x=seconds,updates"])

    drawn = target.read_text()
    for text in (
        "CartPole-v1",
        "time of training (s)",
        "updates, all workers",
        "episode return, greedy evaluations",
        "learning_rate=0.001 (3 seeds)",
        "95% bootstrap intervals",
        "4,000",
    ):
        assert text in drawn, text


def test_scores_for_programs(runs: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot.main(["plot", "--output=", "--table=csv", str(runs)])

    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["settings"], row["runs"], row["at_end"]) for row in rows] == [
        ("learning_rate=0.001", "3", "4000.0"),
        ("learning_rate=0.0003", "3", "2000.0"),
    ]


def test_settings_are_compared_over_environments(
    runs: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rate, last in (("0.001", -80.0), ("0.0003", -90.0)):
        flags = "--env_id=Acrobot-v1", f"--learning_rate={rate}"
        make(runs / f"acrobot-{rate}", *flags, rows=evaluations(-500.0, last))

    plot.main(["plot", "--output=", "--table=csv", str(runs)])

    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    over = [row for row in rows if row["env_id"] == "all, as shares"]
    assert [(row["settings"], row["runs"], row["at_end"]) for row in over] == [
        ("learning_rate=0.001", "4", "1.0"),
        ("learning_rate=0.0003", "4", "0.0"),
    ]
    assert {row["env_steps"] for row in over} == {""}
    assert len(rows) == 6
    plot.main(["plot", "--output=", str(runs)])
    assert "all, as shares" in capsys.readouterr().out


DAMAGED = ["--output=of-a-damaged-run.png"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output=scores.gif"], "--output=scores.gif: must end in .png, .svg, .pdf"),
        (["--x=hours"], "--x=hours: must be of env_steps, seconds, updates"),
        (["--metric=eval/regret"], "--metric=eval/regret: no run has measured it; they have eval/"),
        (["--table=none", "--output="], "leaves nothing to show"),
        (["--output=flags.txt/x.png"], "--output=flags.txt/x.png: cannot be written"),
        (["--outptu=x.png"], "outptu"),
        (DAMAGED, "0.001-0/metrics.csv: is damaged (could not convert string to float: '\\x00"),
    ],
)
def test_mistakes_are_one_line(
    runs: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(runs / "0.001-0")
    if words == DAMAGED:
        content = pathlib.Path("metrics.csv").read_text()
        last = content.splitlines()[-1]
        pathlib.Path("metrics.csv").write_text(content + "\0" + last.lstrip("0123456789") + "\n")
    with pytest.raises(SystemExit) as left:
        plot.main(["plot", str(runs), *words])
    assert left.value.code == 2
    out, err = capsys.readouterr()
    assert said in only_error(err)
    assert out == ""
