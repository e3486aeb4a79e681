"""The command that distills a run: what it refuses, and from a teacher to a student that plays."""

import json
import pathlib
import re
import signal

import numpy as np
import pytest
from support.command_lines import only_error
from support.processes import Processes

from ps_dqn.distill import __main__ as distill
from ps_dqn.flags import run_folder
from ps_dqn.run import signals
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters, State

FLAGS = "--env_id=CartPole-v1\n--hidden_sizes=8\n--layer_norm=false\n"


def balancing() -> np.ndarray:
    """Weights that push the cart to where the pole falls."""
    kernel, output = np.zeros((4, 8)), np.zeros((8, 2))
    # Of position, speed, angle and its speed.
    kernel[:, 0] = np.array([0.05, 0.15, 1.0, 0.6])
    kernel[:, 1] = -kernel[:, 0]
    output[0, 1] = output[1, 0] = 10.0
    parts = (kernel, np.zeros(8), output, np.zeros(2))
    return np.concatenate([each.ravel() for each in parts]).astype(np.float32)


@pytest.fixture
def run(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a run of CartPole that balances; nobody can write a log there."""
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "logs").touch()
    (folder / "flags.txt").write_text(FLAGS)
    vector = balancing()
    checkpoints = Checkpoints(folder / "checkpoints", keep=1)
    checkpoints.save_best(State(vector, vector, vector, (), Counters(1, 9, 640, 0, 9)), 1.0, 20.0)
    return folder


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        distill.main(["distill", *words])
    assert left.value.code == signals.WRONG_USAGE
    said = capsys.readouterr()
    assert said.out == ""
    return only_error(said.err)


def test_what_is_wrong_is_said_in_one_line(
    run: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small, there = "--hidden_sizes=4", str(run)
    assert refused(capsys, f"{run}/no", small) == f"--run_dir={run}/no: is not the folder of a run"
    assert refused(capsys, small) == "--run_dir=: is not the folder of a run"
    assert "the run's folder is said twice" in refused(capsys, there, f"--run_dir={run}", small)
    assert refused(capsys, there).startswith("--hidden_sizes: say how large the student is to be")
    none = f"--checkpoint=newest: there is none in {run} yet"
    assert refused(capsys, there, small, "--checkpoint=newest") == none
    assert "--loss=huber: value should be one of" in refused(capsys, there, small, "--loss=huber")
    assert "--temperature=2.0: has no effect without --loss=kl" in refused(
        capsys, there, small, "--temperature=2", "--loss=nll"
    )
    assert "--gamma=0.9: there is no such flag" in refused(capsys, there, small, "--gamma=0.9")
    assert "--hidden_sizes=0: must be 1 or more" in refused(capsys, there, "--hidden_sizes=0")
    other = f"--output={run}/flags.txt/student"
    assert refused(capsys, there, small, other) == f"{other}: cannot be written (Not a directory)"
    assert sorted(each.name for each in run.iterdir()) == ["checkpoints", "flags.txt", "logs"]
    (run / "checkpoints" / "best.npz").write_bytes(b"PK")
    assert "best.npz cannot be read" in refused(capsys, there, small)


def test_a_folder_that_is_there_is_left_alone(
    run: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = run / "distilled-4"
    taken.mkdir()
    (taken / "mine.txt").write_text("")
    said = refused(capsys, str(run), "--hidden_sizes=4")
    assert said == f"--output={taken}: is there already: remove it, or say another one"
    assert [each.name for each in taken.iterdir()] == ["mine.txt"]


def test_a_recurrent_teacher_is_refused(
    run: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "flags.txt").write_text(f"{FLAGS}--recurrent_size=5\n")
    assert "--recurrent_size=5: the run's network goes by what it remembers" in refused(
        capsys, str(run), "--hidden_sizes=4"
    )


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert distill.main(["distill", "--help"]) == 0
    said = capsys.readouterr().out
    for names in distill.TOPICS.values():
        assert all(re.search(rf"--(\[no\])?{name} ", said) for name in names)
    assert "--hidden_sizes (default the run's)" in said


@pytest.mark.slow
def test_from_a_teacher_to_a_run_that_others_play(run: pathlib.Path, processes: Processes) -> None:
    words = ("-m", "ps_dqn.distill", str(run), "--hidden_sizes=4", "--episodes=10")
    running = processes.start(*words, "--env_steps=8000", "--learning_rate=0.01")
    assert running.ended(300) == 0, running.text
    folder = run / "distilled-4"
    assert running.lines[-1] == f"the student is a run of its own, {folder}"
    assert running.line_with("of 8,000  loss ")
    found = json.loads((folder / "summary.json").read_text())
    sides = found["distilled"]
    assert sides["teacher"]["return_mean"] > 400  # as it was made to
    assert found["eval_return"] > 0.8 * sides["teacher"]["return_mean"]
    assert sides["student"]["parameters"] == 4 * 4 + 4 + 4 * 2 + 2
    config, checkpoint = run_folder.read(folder)
    assert config.network.hidden_sizes == (4,)
    assert checkpoint.eval_return == found["eval_return"]

    # Who knows nothing of distillation plays the same episodes.
    played = processes.start("-m", "ps_dqn.evaluator", f"--run_dir={folder}", "--episodes=10")
    assert played.ended() == 0, played.text
    assert f"10 greedy episodes, mean return {found['eval_return']:.1f}" in played.text

    again = processes.start(*words)
    assert again.ended() == signals.WRONG_USAGE
    assert again.lines == [
        f"error: --output={folder}: is there already: remove it, or say another one"
    ]


@pytest.mark.slow
def test_a_signal_ends_it_and_nothing_is_left(run: pathlib.Path, processes: Processes) -> None:
    words = ("-m", "ps_dqn.distill", str(run), "--hidden_sizes=4", "--episodes=2")
    running = processes.start(*words, "--env_steps=100000000")
    running.line_with("of 100,000,000  loss ")
    assert (run / "distilled-4").exists()
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == signals.START_AGAIN
    assert running.lines[-1] == "stopped before the student had learned: nothing is left of it"
    assert not (run / "distilled-4").exists()
