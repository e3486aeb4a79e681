"""Pictures are drawn whatever a user has told Matplotlib."""

import pathlib

import pytest
from support.made_runs import evaluations, make
from support.programs import run_python

SETTINGS = {"MPLBACKEND": "bogus", "PATH": "/nowhere"}  # there is no LaTeX
CURVE = """
import pathlib, sys
from ps_dqn.telemetry import learning_curve
learning_curve.prepare()
learning_curve.draw(pathlib.Path(sys.argv[1]), "a_run", 100.0)
"""
TIMELINE = """
import os, pathlib, sys
from ps_dqn.profiling import picture
from ps_dqn.profiling.rows import Row
picture.draw(pathlib.Path(sys.argv[1]) / "timeline.png", [Row("a_task", 0.0, [], {})], 1.0, "a_run")
assert os.environ["MPLBACKEND"] == "bogus"  # for a user's own code
"""


@pytest.mark.parametrize(
    ("program", "drawn"),
    [
        (["-c", CURVE, "run"], "learning_curve.png"),
        (["-c", TIMELINE, "run"], "timeline.png"),
        (["-m", "ps_dqn.plot", "run", "--output=run/scores.png"], "scores.png"),
    ],
    ids=["curve", "timeline", "plot"],
)
def test_windows_and_papers_are_of_no_concern(
    program: list[str], drawn: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = {"eval/episode_return_min": 5.0, "eval/episode_return_max": 25.0}
    make(tmp_path / "run", rows=[{**row, **bounds} for row in evaluations(10.0, 20.0)])
    rc = tmp_path / "matplotlibrc"  # of the current directory
    rc.write_text("text.usetex: True\nbackend: none_such\n")
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    ended = run_python(program, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "run" / drawn).read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_matplotlib_cannot_draw_is_one_line(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "run", rows=evaluations(10.0, 20.0))
    (tmp_path / "matplotlib.py").write_text("raise RuntimeError('of another kind')\n")
    ended = run_python(["-m", "ps_dqn.plot", "run", "--output=x.png"], tmp_path)
    assert ended.returncode == 2
    assert (
        ended.stderr == "error: --output=x.png: cannot be drawn (RuntimeError: of another kind)\n"
    )
