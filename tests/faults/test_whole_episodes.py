"""What workers learn from when tasks die: no transition joins two episodes."""

import json
import os
import pathlib
import re
import signal
import sys

import numpy as np
import pytest
from support import processes as real
from support.misbehaving_env import LENGTH
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS
from support.replay_files import make

from ps_dqn.replay.batch import Transitions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

TESTS = pathlib.Path(__file__).parents[1]
ENVS, ROWS = 16, 20_000  # of a worker, which no run of this length fills
LEAST = 10_000  # rows of each worker in the end
FLAGS = (
    *("--env_module=support.misbehaving_env", "--env_id=Misbehaving-v0", "--n_step=1"),
    *("--replay_files", f"--replay_capacity={2 * ENVS * ROWS}", "--min_replay_size=2000"),
    *("--num_workers=2", f"--num_envs={2 * ENVS}", "--checkpoint_period=2"),
    "--overlap=on",  # a closure may be cut off in the middle of its steps
)


def kill(processes: Processes, folder: pathlib.Path, *names: str) -> None:
    for name in names:
        pid = processes.writing_to(folder / "logs" / f"{name}.log")
        assert pid, name
        os.kill(pid, signal.SIGKILL)


def trains(running: Running) -> None:
    """Waits until it trains with both, from now on."""
    heard = running.count("workers 2/2")
    real.until(lambda: running.count("workers 2/2") > heard + 2, 120, f"it:\n{running.text}")


def env_steps(running: Running) -> int:
    """What the run has said last."""
    return int(re.findall(r"env_steps +([\d,]+)", running.text)[-1].replace(",", ""))


def test_no_transition_joins_two_episodes(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *ENDLESS, *FLAGS),
        PYTHONPATH=str(TESTS),
    )
    trains(running)
    for names in (["ps-0"], ["worker-1"], ["ps-0"], ["worker-0", "ps-0"]):
        kill(processes, tmp_path, *names)
        trains(running)
    # On a machine under load few steps come between two lines.
    real.until(lambda: env_steps(running) > 6 * LEAST, 600, f"enough:\n{running.text}")
    os.kill(running.pid, signal.SIGTERM)
    running.ended(60)
    assert json.loads((tmp_path / "summary.json").read_text())["recoveries"] == 3
    processes.all_gone(10)
    folders = sorted(tmp_path.glob("workers/*/replay"))
    assert len(folders) == 2
    for folder in folders:
        check(folder)


def check(folder: pathlib.Path) -> None:
    """An observation is the number of its episode, and that of its step."""
    replay = make(
        folder,
        num_envs=ENVS,
        rows=ROWS,
        observation_shape=(2,),
        source="Misbehaving-v0 {}",
    )
    assert replay.size > LEAST, "it is another layout, or hardly anything was stored"
    drawn = replay.sample(1, 200_000)
    replay.close()
    assert isinstance(drawn, Transitions)
    episodes, steps = drawn.observations[0].T
    next_episodes, next_steps = drawn.next_observations[0].T
    assert (next_episodes == episodes).all()
    assert (next_steps == steps + 1).all()
    assert ((drawn.discounts[0] == 0) == (next_steps == LENGTH)).all()
    assert (drawn.returns[0] == 1).all()
    assert np.unique(steps).tolist() == list(range(LENGTH))
