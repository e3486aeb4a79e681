"""Experiments of presets on Kubernetes: written out, as the image may have other presets."""

import pathlib

import pytest
from support.command_lines import only_error, parsed

from ps_dqn import launch
from ps_dqn.flags import experiment
from ps_dqn.flags.preset import PRESETS
from ps_dqn.run import directory

COMMAND = ["launch", "k8s", "--name=mine", "--workers=3", "--ps=2", "--image=r.example/a:1"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that commands are called in, with a file in it."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("my.flags").write_text("--gamma=0.9")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--preset=rainbow"], "rainbow,cartpole"),
        (["--preset=dqn,acrobot", "--flagfile=my.flags"], "dqn,acrobot"),
        ([f"--flagfile={PRESETS}/pqn.flags"], "pqn,cartpole"),
        (["--flagfile=my.flags", "--env_id=Acrobot-v1"], ""),
    ],
)
def test_presets_are_written_out(words: list[str], named: str) -> None:
    assert launch.main([*COMMAND, *words]) == 0
    written = pathlib.Path("launch/mine/experiment.flags")
    first = written.read_text().splitlines()[0]
    assert first.removeprefix(directory.BEGAN_WITH) == named or not named
    assert first.startswith(directory.BEGAN_WITH) == bool(named)
    # For whoever has no such presets, the same experiment.
    assert experiment.read(parsed(f"--flagfile={written}")) == experiment.read(parsed(*words))


def test_a_preset_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        launch.main([*COMMAND, "--preset=rainbo"])
    assert caught.value.code == 2
    assert only_error(capsys.readouterr().err) == (
        "--preset=rainbo: there is no preset rainbo; did you mean rainbow? ps-dqn presets lists "
        "them"
    )
