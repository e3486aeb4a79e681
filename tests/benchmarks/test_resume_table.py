"""The table of runs that were stopped and resumed."""

import pathlib

import pytest
import resume


def test_a_half_without_evaluations_has_no_number(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A short run on a busy machine is stopped before anything is evaluated.
    rows = [
        dict(zip(resume.COLUMNS, ("cartpole", "8", way, "after", "3000", "21.5"), strict=True))
        for way in resume.COLORS
    ]
    resume.show(rows, "cartpole")
    told = "21.5 (21.5 to 21.5)"
    lines = [f"| cartpole | {way} | – | {told} | {told} |" for way in resume.COLORS]
    assert capsys.readouterr().out.splitlines() == lines
    resume.draw(rows, ["cartpole"], tmp_path / "resume.png")
    assert (tmp_path / "resume.png").exists()
