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

from ps_dqn.cluster.restarts import RESTARTS_PER_TASK
from ps_dqn.run import signals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
# Of a push, most of the time goes into environments that wait 0.05 s a step.
SLOW = (
    *("--env_module=slow_cartpole", "--env_id=SlowCartPole-v1"),
    '--env_kwargs={"step_seconds": 0.0016}',
)
FLAGS = (
    "--num_workers=2",
    "--target_return=inf",
    "--eval_period=600000",
    "--eval_episodes=2",
    "--confirm_episodes=0",
    "--overlap=off",
    "--seed=7",
    "--log_interval=0.2",
    "--snapshot_period=1",
    "--checkpoint_period=1000",
)

RECOVERED = "pushes after that are pushed again, none is missing"


def begun(processes: Processes, folder: pathlib.Path, *flags: str) -> Running:
    arguments = ("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *FLAGS, *flags)
    running = processes.start(*arguments, PYTHONPATH=str(BENCHMARKS))
    running.trains()
    return running


def steps(running: Running) -> int:
    """What the run has said last."""
    found = re.findall(r"env_steps +([\d,]+)", running.text)
    return int(found[-1].replace(",", ""))


def last_checkpoint(folder: pathlib.Path) -> dict[str, np.ndarray]:
    return dict(np.load(max(folder.glob("checkpoints/updates-*.npz"))))


def test_rounds_end_at_the_bits_of_a_run_of_which_nobody_was_killed(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    num_ps, total = 2, 10_000
    # With `--restart` a server that is lost is forked, and soon there.
    flags = [f"--num_ps={num_ps}", f"--total_env_steps={total}", *SLOW, "--restart"]
    undisturbed = begun(processes, tmp_path / "undisturbed", *flags)
    assert undisturbed.ended(300) == 0, undisturbed.text
    folder = tmp_path / "killed"
    running = begun(processes, folder, *flags)
    for i, place in enumerate((total // 6, total // 3, total // 2)):
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


def test_a_server_may_be_lost_as_often_as_it_has_worked_in_between(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    """It works though hardly a closure comes to its end before it is lost again."""
    long = ("--pushes_per_closure=1000", "--checkpoint_period=0.5", "--total_env_steps=1000000")
    flags = (*FLAGS, *SLOW, *long, "--restart")
    arguments = ("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *flags)
    running = processes.start(*arguments, PYTHONPATH=str(BENCHMARKS))

    def newest() -> int:
        found = tmp_path.glob("checkpoints/updates-*.npz")
        return max((int(path.stem.partition("-")[2]) for path in found), default=0)

    seen = 0
    for i in range(RESTARTS_PER_TASK + 2):
        seen = real.until(lambda before=seen: newest() > before and newest(), 120, running.text)
        process = processes.writing_to(tmp_path / "logs" / "ps-0.log")
        assert process
        os.kill(process, signal.SIGKILL)
        real.until(lambda n=i: running.count("goes on at") == n + 1, 120, running.text)
    real.until(lambda: newest() > seen, 120, running.text)
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text
