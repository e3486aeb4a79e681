"""Whole runs as processes: what they say, and how they are stopped."""

import json
import os
import pathlib
import signal
import sys

import pytest
from support import processes as real
from support.processes import Processes, Running
from support.tiers import tiered

from ps_dqn.run import signals

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ENDLESS = ("--target_return=inf", "--total_env_steps=100000000", "--log_interval=0.5")


def _coordinator(processes: Processes, folder: pathlib.Path, *flags: str) -> Running:
    return processes.start("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *flags)


def _checkpoints(folder: pathlib.Path) -> list[pathlib.Path]:
    return list((folder / "checkpoints").glob("updates-*.npz"))


def test_terminal_has_only_our_own_lines(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _coordinator(
        processes,
        tmp_path,
        *("--total_env_steps=3000", "--num_workers=1", "--num_ps=1", "--eval_episodes=2"),
    )

    assert running.ended(600) == 0, running.text
    # On a machine under load the environment may take its time, of which people hear.
    first = next(line for line in running.lines if "takes longer than" not in line)
    assert first.startswith("CartPole-v1: observations 4, 2 actions; 1 worker × ")
    assert first.endswith(" environments, 1 parameter server, processes of this machine")
    assert running.lines[-1] == f"everything is in {tmp_path}"
    assert "Finished" in running.text
    ours = [line for line in running.lines if "importing TensorFlow" not in line]
    text = "\n".join(ours).lower().replace(str(tmp_path).lower(), "")
    for noise in ("tensorflow", "0000 00:00", "warning", "cuda", "traceback", "absl", "xla"):
        assert noise not in text, running.text
    # It is not that there was nothing to keep away.
    assert (tmp_path / "logs" / "coordinator.log").stat().st_size > 0


@pytest.mark.slow
def test_whatever_may_take_its_time_before_training_is_said(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    program = """
import contextlib
from ps_dqn.coordinator import __main__
from ps_dqn.flags import command_line
from ps_dqn.run import stages

@contextlib.contextmanager
def stage(what, say):
    say(what)  # however quick it is
    yield

stages.stage = stage
command_line.run_main(__main__.main)
"""
    flags = (f"--run_dir={tmp_path}", "--cluster=in_process", "--num_workers=1", "--num_ps=1")
    running = processes.start("-c", program, *flags, "--total_env_steps=64")
    assert running.ended(600) == 0, running.text
    # Each asks tasks, which may be slow or hang.
    expected = [
        "connecting to the tasks",
        "building the network",
        "creating the parameters",
        "creating the replay",
        "tracing what workers will run",
        "registering the run with workers",
        "opening the run's files",
    ]
    assert [line for line in running.lines if line in expected] == expected


@pytest.mark.parametrize("start_method", tiered(["fork", "spawn"], slow=("fork", "spawn")))
def test_killed_coordinator_leaves_no_process(
    processes: Processes, tmp_path: pathlib.Path, start_method: str
) -> None:
    # Environments in processes of their own, so that tasks have children too.
    running = _coordinator(
        processes,
        tmp_path,
        *ENDLESS,
        f"--start_method={start_method}",
        "--num_workers=1",
        "--num_envs_per_worker=2",
        "--vectorization=async",
    )
    running.trains()
    # The coordinator, a parameter server, a worker and its two environments.
    assert len(processes.alive()) >= 5

    os.kill(running.pid, signal.SIGKILL)

    processes.all_gone(60)
    assert running.ended() == -signal.SIGKILL


@pytest.mark.slow
def test_interrupted_run_is_resumed(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _coordinator(processes, tmp_path, *ENDLESS, "--eval_episodes=2")
    running.trains()

    os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C does

    assert running.ended() == 128 + signal.SIGINT, running.text
    assert "Stopped" in running.text
    processes.all_gone(1)
    assert len(_checkpoints(tmp_path)) == 1
    first = json.loads((tmp_path / "summary.json").read_text())
    assert first["reason"] == "stopped"
    assert first["env_steps"] > 0

    # --total_env_steps overrides the run's own; --target_return=inf is still the run's.
    total = first["env_steps"] + 1000
    resumed = _coordinator(processes, tmp_path, "--resume", f"--total_env_steps={total}")

    assert resumed.ended(600) == 0, resumed.text
    assert any(
        f"resumed at {first['env_steps']:,} env steps, {first['updates']:,} updates" in line
        for line in resumed.lines
    ), resumed.text
    second = json.loads((tmp_path / "summary.json").read_text())
    assert second["reason"] == "finished"
    assert second["env_steps"] >= total
    assert second["updates"] > first["updates"]
    assert second["version"] > first["version"]
    assert second["training_seconds"] > first["training_seconds"]


@pytest.mark.slow
def test_a_run_that_a_system_stops_may_be_started_again(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = _coordinator(processes, tmp_path, *ENDLESS, "--eval_episodes=2")
    running.trains()

    os.killpg(running.pid, signal.SIGTERM)

    assert running.ended() == signals.START_AGAIN, running.text
    processes.all_gone(1)
    assert len(_checkpoints(tmp_path)) == 1
    assert json.loads((tmp_path / "summary.json").read_text())["reason"] == signals.STOPPED


def test_interrupt_at_start_up_leaves_neither_a_process_nor_an_empty_folder(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "run"
    running = _coordinator(processes, folder, *ENDLESS)
    real.until(lambda: processes.writing_to(folder / "logs" / "worker-1.log"), 180, "the worker")

    os.killpg(running.pid, signal.SIGINT)

    assert running.ended() == 128 + signal.SIGINT, running.text
    processes.all_gone(1)
    assert "Traceback" not in running.text
    assert running.lines[-2:] == [
        "Ctrl-C came while the run was starting: it has ended",
        f"nothing was learned yet: {folder} is removed",
    ]
    assert not folder.exists()
