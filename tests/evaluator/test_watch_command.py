"""The command that shows a run's policy: its words, its refusals and a film."""

import pathlib
import sys

import numpy as np
import pytest
from support import programs
from support.processes import Processes

from ps_dqn import watch
from ps_dqn.environments import rendering
from ps_dqn.run import signals
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters, State

NUM_PARAMETERS = 4 * 8 + 8 + 8 * 2 + 2


@pytest.fixture
def run(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a run of CartPole, with a checkpoint; nobody can write a log there."""
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "logs").touch()
    flags = "--env_id=CartPole-v1\n--hidden_sizes=8\n--dueling=false\n--layer_norm=false\n"
    (folder / "flags.txt").write_text(flags)
    vector = np.linspace(-1.0, 1.0, NUM_PARAMETERS, dtype=np.float32)
    checkpoints = Checkpoints(folder / "checkpoints", keep=1)
    checkpoints.save_best(State(vector, vector, vector, (), Counters(1, 9, 640, 0, 9)), 1.0, 20.0)
    return folder


@pytest.mark.slow
def test_a_film_of_the_best_checkpoint(
    run: pathlib.Path, processes: Processes, tmp_path: pathlib.Path
) -> None:
    video = tmp_path / "film.gif"
    running = processes.start(
        "-m", "ps_dqn.watch", str(run), f"--video={video}", "--episodes=2", "--q_values"
    )
    assert running.ended() == 0, running.text
    assert running.line_with("CartPole-v1, best.npz of 640 env steps:")
    for number in (1, 2):
        assert ".0, " in running.line_with(f"episode {number}: return ")
    assert running.lines[-1] == f"the film is {video}"
    assert video.stat().st_size > 1000


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--q_values"], "--q_values: needs --video=film.mp4"),
        (["--preview=film.gif"], "--preview: needs --video=film.mp4"),
        (["--video=film.avi"], "--video=film.avi: its name must end with .mp4 or .gif"),
        (["--video=logs/film.mp4"], "--video=logs/film.mp4: cannot be written ("),
        (
            ["--video=film.mp4", "--preview=logs/small.gif"],
            "--preview=logs/small.gif: cannot be written (",
        ),
        (["--checkpoint=newest"], "--checkpoint=newest: there is none in"),
        (["--episodes=0"], "--episodes=0"),
    ],
)
def test_mistakes_are_one_line(
    run: pathlib.Path,
    flags: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run)
    # What follows imports TensorFlow.
    monkeypatch.setattr("ps_dqn.run.terminal.redirect_to", lambda _: pytest.fail("not refused"))
    before = sorted(run.iterdir())
    with pytest.raises(SystemExit) as left:
        watch.main(["watch", str(run), *flags])
    assert left.value.code == signals.WRONG_USAGE
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert words in line.replace("flag --episodes=0", "--episodes=0")
    assert sorted(run.iterdir()) == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no variable tells of a display")
def test_a_window_without_a_display_is_refused_before_tensorflow_is_imported(
    run: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    # The program's first place to look for modules: whoever imports it there is shown.
    (tmp_path / "tensorflow.py").write_text("raise AssertionError('TensorFlow is imported')\n")
    ended = programs.run_python(["-m", "ps_dqn.watch", str(run)], tmp_path)
    assert ended.returncode == signals.WRONG_USAGE, ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith("error: no display here")
    assert "say --video=film.mp4" in line


@pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"])
def test_a_display_is_what_any_of_three_variables_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "dummy")
    rendering.require_display()
