"""The command that shows a run's policy: its words, its refusals and a film."""

import pathlib

import numpy as np
import pytest
from support.processes import Processes

from ps_dqn import watch
from ps_dqn.run import signals
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters, State

NUM_PARAMETERS = 4 * 8 + 8 + 8 * 2 + 2


@pytest.fixture
def run(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a run of CartPole, with a checkpoint."""
    folder = tmp_path / "run"
    for name in ("checkpoints", "logs"):
        (folder / name).mkdir(parents=True)
    flags = "--env_id=CartPole-v1\n--hidden_sizes=8\n--dueling=false\n--layer_norm=false\n"
    (folder / "flags.txt").write_text(flags)
    vector = np.linspace(-1.0, 1.0, NUM_PARAMETERS, dtype=np.float32)
    checkpoints = Checkpoints(folder / "checkpoints", keep=1)
    checkpoints.save_best(State(vector, vector, vector, (), Counters(1, 9, 640, 0, 9)), 1.0, 20.0)
    return folder


def test_a_film_of_the_best_checkpoint(
    run: pathlib.Path, processes: Processes, tmp_path: pathlib.Path
) -> None:
    video = tmp_path / "film.gif"
    running = processes.start(
        "-m", "ps_dqn.watch", str(run), f"--video={video}", "--episodes=2", "--q_values"
    )
    assert running.ended(240) == 0, running.text
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
        (["--checkpoint=newest"], "--checkpoint=newest: there is none in"),
        (["--episodes=0"], "--episodes=0"),
    ],
)
def test_mistakes_are_one_line(
    run: pathlib.Path, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        watch.main(["watch", str(run), *flags])
    assert left.value.code == signals.WRONG_USAGE
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert words in line.replace("flag --episodes=0", "--episodes=0")
