"""A sweep of real runs: interrupted, gone on with, and looked at once more."""

import json
import pathlib
import signal

import pytest
from support.catch_env import FLAGS as CATCH
from support.processes import Processes, Running
from support.programs import TESTS

from ps_dqn.run import directory
from ps_dqn.telemetry import measured


def _start(processes: Processes, folder: pathlib.Path, *flags: str) -> Running:
    return processes.start(
        *("-m", "ps_dqn.sweep", f"--output={folder}", *CATCH, *flags),
        *("--vary=learning_rate=0.001,0.003", "--seeds=1", "--jobs=2", "--target_return=inf"),
        *("--total_env_steps=20000", "--eval_period=5000", "--metrics_period=2000"),
        "--log_interval=0.3",
        PYTHONPATH=str(TESTS),
    )


@pytest.mark.slow
def test_a_sweep_is_interrupted_and_goes_on(processes: Processes, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "sweep"
    first = _start(processes, folder)
    first.line_with("env_steps")
    first.process.send_signal(signal.SIGINT)

    assert first.ended() == 130, first.text
    assert "stopping: 2 runs save themselves" in first.text
    assert first.count("interrupted: ") >= 1
    assert not processes.alive()
    assert not (folder / "scores.csv").exists()  # what was interrupted is no result
    runs = [folder / f"learning_rate={rate}" / "seed-0" for rate in ("0.001", "0.003")]
    before = {run: directory.identity(run) for run in runs if directory.has_checkpoint(run)}
    assert before

    second = _start(processes, folder)
    assert second.ended() == 0, second.text
    assert second.count("goes on: ") >= len(before)
    assert second.count("finished: ") == 2
    assert "learning_rate=0.003" in second.text
    for run, name in before.items():
        assert directory.identity(run) == name  # the same run, to its end
    for run in runs:
        assert measured.read(run).reason == "finished"
    assert len((folder / "scores.csv").read_text().splitlines()) == 3
    assert (folder / "scores.png").stat().st_size > 10_000
    assert json.loads((folder / "sweep.json").read_text())["search"] == "grid"

    third = _start(processes, folder)
    assert third.ended() == 0, third.text
    assert third.count("has ended before: ") == 2
    assert third.count("begins: ") == 0
