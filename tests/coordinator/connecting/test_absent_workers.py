"""Runs in rounds, whole and as processes, of which a worker hangs or evaluates."""

import json
import os
import pathlib
import signal
import sys

import pytest
from support import processes as real
from support.going_on import trains_on, updates
from support.processes import Processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FLAGS = ("--aggregation=sync", "--jit_compile=none", "--eval_episodes=2", "--hidden_sizes=16")


@pytest.mark.thorough
def test_rounds_go_on_while_a_worker_hangs_and_wait_for_it_again(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *FLAGS),
        *("--target_return=inf", "--total_env_steps=100000000", "--log_interval=0.5"),
        *("--num_workers=3", "--eval_period=100000000", "--worker_timeout=inf"),
    )
    running.trains()
    trains_on(running, updates(running))  # evaluations are registered, which waits for all workers
    worker = processes.writing_to(tmp_path / "logs" / "worker-1.log")
    assert worker

    os.kill(worker, signal.SIGSTOP)
    said = running.line_with("rounds go on without it", 120)
    assert said == "worker 1 has not pushed for long: rounds go on without it until it does"
    heard = running.count("updates/s")
    real.until(lambda: running.count("updates/s") > heard + 4, 60, "rounds of two workers")

    os.kill(worker, signal.SIGCONT)
    running.line_with("rounds wait for worker 1 again: it pushes", 60)
    os.killpg(running.pid, signal.SIGINT)
    assert running.ended(60) == 128 + signal.SIGINT, running.text
    assert running.count("rounds go on without it") == 1, running.text
    processes.all_gone(1)


@pytest.mark.slow
def test_rounds_go_on_at_once_without_a_worker_that_is_lost(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *FLAGS),
        *("--target_return=inf", "--total_env_steps=100000000", "--log_interval=0.5"),
        *("--num_workers=3", "--eval_period=100000000"),
    )
    running.trains()
    worker = processes.writing_to(tmp_path / "logs" / "worker-1.log")
    assert worker

    os.kill(worker, signal.SIGKILL)
    running.line_with("worker 1 is lost: rounds go on without it until it pushes", 120)
    running.line_with("rounds wait for worker 1 again: it pushes", 120)
    os.killpg(running.pid, signal.SIGINT)
    assert running.ended(60) == 128 + signal.SIGINT, running.text
    assert not running.count("has not pushed for long"), running.text
    processes.all_gone(1)


SLOW_CATCH = """
import time

import gymnasium
from support import catch_env


class SlowCatch(catch_env.Catch):
    def __init__(self, seconds=0.0):
        self._seconds = seconds

    def step(self, action):
        time.sleep(self._seconds)
        return super().step(action)


gymnasium.register("tests/SlowCatch-v0", entry_point=SlowCatch)
"""


@pytest.mark.slow
def test_nobody_waits_for_a_worker_that_evaluates(coordinate, tmp_path: pathlib.Path) -> None:
    (tmp_path / "slow_catch.py").write_text(SLOW_CATCH)
    folder, ended = coordinate(
        "run",
        *FLAGS,
        *("--env_module=slow_catch", "--env_id=tests/SlowCatch-v0", "--overlap=off"),
        # Its four steps take a second, a push some milliseconds.
        *('--eval_env_kwargs={"seconds": 0.25}', "--eval_episodes=1", "--eval_period=1000"),
        "--confirm_episodes=0",
        *("--cluster=in_process", "--num_workers=2", "--num_envs=4", "--local_updates=4"),
        *("--min_replay_size=40", "--target_return=inf", "--total_env_steps=4000"),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    applied = sum(worker["pushes_applied"] for worker in summary["workers"].values())
    assert applied < 1.9 * summary["version"], "rounds of two would be of two pushes each"
