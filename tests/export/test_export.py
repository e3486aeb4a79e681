"""The command that hands a run's network to TensorFlow."""

import pathlib
import re

import numpy as np
import pytest
from support.programs import run_python

from ps_dqn.export import __main__ as export
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters, State

PARAMETERS = 4 * 3 + 3 + 3 * 2 + 2  # CartPole's, of one hidden layer
FLAGS = "--hidden_sizes=3\n--nolayer_norm\n--value_distribution=none\n"


@pytest.fixture
def run_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a run; nobody can write a log there."""
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "logs").touch()
    (folder / "flags.txt").write_text(FLAGS)
    return folder


def state(first: float) -> State:
    average = np.arange(first, first + PARAMETERS, dtype=np.float32) / 7
    return State(average * 0, average * 0, average, (), Counters(3, 6, 4321, 2, 6))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["best", "newest"])
def test_it_writes_the_average_of_a_checkpoint(name: str, run_dir: pathlib.Path) -> None:
    checkpoints = Checkpoints(run_dir / "checkpoints", keep=1)
    checkpoints.save_best(state(0), 1.0, 200.0)
    checkpoints.save_newest(state(100), 2.0)
    output = run_dir.parent / "new" / "out"
    words = ("-m", "ps_dqn.export", run_dir, f"--output={output}")
    ended = run_python([*words, f"--checkpoint={name}"], run_dir.parent)
    assert (ended.returncode, ended.stderr) == (0, "")
    file = {"best": "best.npz", "newest": "updates-000000000006.npz"}[name]
    # What takes long is said, too, on a busy machine.
    assert ended.stdout.splitlines()[-4:] == [
        f"{file} of 4,321 env steps, its average:",
        f"  {output}/network.weights.h5",
        f"  {output}/network.index",
        f"  {output}/network.data-00000-of-00001",
    ]

    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(output / "network"))
    names = ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]
    parts = [reader.get_tensor(f"layers/{each}/.ATTRIBUTES/VARIABLE_VALUE") for each in names]
    vector = np.concatenate([part.ravel() for part in parts])
    assert (vector == state(0 if name == "best" else 100).average).all()


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        export.main(["export", *words])
    assert left.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_what_is_wrong_is_said_in_one_line(
    run_dir: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, output = f"--run_dir={run_dir}", f"--output={run_dir}/out"
    assert f"{run_dir}/no: is not the folder of a run" in refused(capsys, f"{run}/no", output)
    assert "--run_dir=: is not the folder of a run" in refused(capsys, output)
    assert "--output=: name the folder to write to" in refused(capsys, run)
    assert "is said twice" in refused(capsys, f"{run_dir}", run, output)
    assert f"{run_dir}/no: is not the folder of a run" in refused(capsys, f"{run_dir}/no")
    assert "--int8=full: has no effect with --format=onnx" in refused(
        capsys, run, output, "--int8=full", "--format=onnx"
    )
    assert "--observations=a.npz: has no effect with --format=weights" in refused(
        capsys, run, output, "--observations=a.npz"
    )
    assert "--num_observations=5: has no effect with --observations" in refused(
        capsys, run, output, "--format=keras", "--observations=a.npz", "--num_observations=5"
    )
    none = f"--checkpoint=newest: there is none in {run_dir} yet"
    assert none in refused(capsys, run, output, "--checkpoint=newest")
    assert "--checkpoint=worst" in refused(capsys, run, output, "--checkpoint=worst")
    assert not (run_dir / "out").exists()
    (run_dir / "checkpoints" / "best.npz").write_bytes(b"PK")
    assert "best.npz cannot be read" in refused(capsys, run, output)


def test_a_format_names_the_packages_that_it_lacks(
    run_dir: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "NEEDED", {"onnx": ("not_installed", "neither")})
    said = refused(capsys, str(run_dir), "--format=onnx", f"--output={run_dir}/out")
    assert said == (
        'error: --format=onnx: needs not_installed and neither: pip install "ps-dqn[export]"\n'
    )


def test_an_output_that_cannot_be_written_is_refused(
    run_dir: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What follows imports TensorFlow.
    monkeypatch.setattr("ps_dqn.run.terminal.redirect_to", lambda _: pytest.fail("not refused"))
    Checkpoints(run_dir / "checkpoints", keep=1).save_best(state(0), 1.0, 200.0)
    file = run_dir / "flags.txt"
    said = refused(capsys, f"--run_dir={run_dir}", f"--output={file}")
    assert said == f"error: --output={file}: cannot be written (File exists)\n"
    # Not even root can make a file there.
    said = refused(capsys, str(run_dir), "--output=/proc", "--format=npz")
    assert said.startswith("error: --output=/proc: cannot be written (")


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main(["export", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(re.search(rf"--(\[no\])?{name} ", said) for name in export.FLAGS)
