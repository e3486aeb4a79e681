"""Parameter servers that are killed while a run trains: not a push of it is missing."""

import json
import os
import pathlib
import re
import signal
import sys

import numpy as np
import pytest
from support import processes as real
from support.processes import Processes, Running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

STEPS = 60_000
FLAGS = (
    "--num_workers=2",
    f"--total_env_steps={STEPS}",
    "--target_return=inf",
    f"--eval_period={10 * STEPS}",
    "--overlap=off",
    "--seed=7",
    "--log_interval=0.2",
    "--snapshot_period=1",
    "--checkpoint_period=1000",
)

RECOVERED = "pushes after that are pushed again, none is missing"


def begun(processes: Processes, folder: pathlib.Path, num_ps: int) -> Running:
    arguments = ("-m", "ps_dqn.coordinator", f"--run_dir={folder}", f"--num_ps={num_ps}", *FLAGS)
    running = processes.start(*arguments)
    running.line_with("updates/s", 120)
    return running


def steps(running: Running) -> int:
    """What the run has said last."""
    found = re.findall(r"env_steps +([\d,]+)", running.text)
    return int(found[-1].replace(",", ""))


def last_checkpoint(folder: pathlib.Path) -> dict[str, np.ndarray]:
    return dict(np.load(max(folder.glob("checkpoints/updates-*.npz"))))


@pytest.mark.parametrize("num_ps", [1, 2])
def test_rounds_end_at_the_bits_of_a_run_of_which_nobody_was_killed(
    processes: Processes, tmp_path: pathlib.Path, num_ps: int
) -> None:
    undisturbed = begun(processes, tmp_path / "undisturbed", num_ps)
    assert undisturbed.ended(300) == 0, undisturbed.text
    folder = tmp_path / "killed"
    running = begun(processes, folder, num_ps)
    for i, place in enumerate((STEPS // 6, STEPS // 3, STEPS // 2)):
        real.until(lambda at=place: steps(running) > at, 300, f"{place} steps:\n{running.text}")
        process = processes.writing_to(folder / "logs" / f"ps-{i % num_ps}.log")
        assert process
        os.kill(process, signal.SIGKILL)
        real.until(lambda n=i: running.count(RECOVERED) == n + 1, 120, running.text)
        heard = running.count("updates/s")
        real.until(lambda n=heard: running.count("updates/s") > n, 120, running.text)

    assert running.ended(300) == 0, running.text

    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["recoveries"], summary["updates_lost"]) == (3, 0)
    assert summary["pushes_again"] > 0
    assert 0 < summary["goodput"] < 1
    wanted, found = last_checkpoint(tmp_path / "undisturbed"), last_checkpoint(folder)
    assert found["counters"].tolist() == wanted["counters"].tolist()
    for name in ("online", "target", "average", "slot_0"):
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
    processes.all_gone(10)
