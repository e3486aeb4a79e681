"""Real processes: how tasks stop, are watched and replaced, and what a run does when they die."""

import json
import os
import pathlib
import re
import signal
import sys
import time
from collections.abc import Iterator

import processes as real
import pytest
from processes import Processes, Running

from cluster import spec as cluster_spec
from cluster.spec import Task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ENDLESS = ("--target_return=inf", "--total_env_steps=100000000", "--log_interval=0.5")


@pytest.fixture
def processes() -> Iterator[Processes]:
    with real.gone_at_the_end() as started:
        yield started


# One task.


@pytest.mark.parametrize(
    ("module", "task"),
    [("ps_dqn.parameter_server", Task("ps", 0)), ("ps_dqn.worker", Task("worker", 0))],
    ids=["parameter_server", "worker"],
)
def test_task_stops_at_sigterm_and_ignores_sigint(
    processes: Processes, module: str, task: Task
) -> None:
    spec = cluster_spec.on_this_machine(1, 1)
    address = spec.addresses(task.job)[0]
    running = processes.start("-m", module, TF_CONFIG=spec.tf_config(task))
    assert running.line_with("serves at") == f"{task} serves at {address}"
    real.until(lambda: real.accepts(address) or running.process.poll(), 60, "the server")

    # Both are pending at once, or SIGINT comes first; Python hears of SIGINT, the lower number,
    # first in either case. Were it not ignored, the exit code could not be 0.
    os.killpg(running.pid, signal.SIGINT)
    asked = time.monotonic()
    os.killpg(running.pid, signal.SIGTERM)

    assert running.ended(10) == 0, running.text
    assert time.monotonic() - asked < 3  # "within a second", on a noisy machine
    assert "Traceback" not in running.text


# The cluster of this machine, with tasks that take no time to start. Forking is sound only where
# TensorFlow has no threads, which pytest's own process cannot promise: a small program does it.

SCENARIOS = r'''
import json, os, pathlib, signal, socket, subprocess, sys, time
from cluster import local, spec as cluster_spec
from cluster.spec import Task

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
PS, WORKER = Task("ps", 0), Task("worker", 0)
spec = cluster_spec.on_this_machine(1, 1)


def listens(spec, task):
    host, _, port = spec.addresses(task.job)[task.index].rpartition(":")
    server = socket.create_server((host, int(port)))
    signal.pause()


def dies(spec, task):
    for number in range(50):
        print("line", number)
    raise RuntimeError("the battery is flat")


def will_not_stop(spec, task):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "1000"])  # inherits that SIGTERM is ignored
    listens(spec, task)


def cluster_of(worker, module="ps_dqn.worker", arguments=(), start_method="fork"):
    roles = {
        "ps": local.Role("ps_dqn.parameter_server", (), listens),
        "worker": local.Role(module, arguments, worker),
    }
    return local.LocalCluster(spec, roles, folder, start_method)


def say(**what):
    print(json.dumps(what), flush=True)


def checked(cluster):
    """The first thing that check() says."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if lines := cluster.check():
            return lines
        time.sleep(0.01)
    return ["nothing"]


def dies_at_start_up():
    try:
        with local.running(cluster_of(dies)):
            say(error="none")
    except local.TaskDiedError as error:
        say(error=str(error))


def spawned_dies_at_start_up():
    try:
        with local.running(cluster_of(None, arguments=("--wings=2",), start_method="spawn")):
            say(error="none")
    except local.TaskDiedError as error:
        say(error=str(error))


def dead_ps():
    with local.running(cluster_of(listens)) as cluster:
        before = cluster.check()
        os.kill(cluster.pid(PS), signal.SIGKILL)
        try:
            lines = checked(cluster)
            say(error="none", lines=lines)
        except local.TaskDiedError as error:
            say(error=str(error), before=before)


def dead_worker():
    with local.running(cluster_of(listens)) as cluster:
        old = cluster.pid(WORKER)
        os.kill(old, signal.SIGKILL)
        while cluster.alive("worker"):
            time.sleep(0.01)
        lines = checked(cluster)
        cluster.wait_until_serving()
        say(
            lines=lines,
            again=cluster.check(),
            replaced=cluster.pid(WORKER) != old,
            alive=[cluster.alive("worker"), cluster.alive("ps")],
        )


def worker_that_keeps_dying():
    lines = []
    with local.running(cluster_of(listens, arguments=("--wings=2",))) as cluster:
        os.kill(cluster.pid(WORKER), signal.SIGKILL)
        try:
            while not lines or "nothing" not in lines:
                lines += checked(cluster)
            say(error="none", lines=lines)
        except local.TaskDiedError as error:
            say(error=str(error), lines=lines)


def stubborn():
    cluster = cluster_of(will_not_stop)
    with local.running(cluster):
        pids = [cluster.pid(PS), cluster.pid(WORKER)]
        while not pathlib.Path(f"/proc/{pids[1]}/task/{pids[1]}/children").read_text():
            time.sleep(0.01)
        started = time.monotonic()
    say(seconds=time.monotonic() - started)
    sys.stdin.read() if sys.stdin.isatty() else signal.pause()


def waits():
    with local.running(cluster_of(will_not_stop)):
        say(serves=True)
        signal.pause()


globals()[name]()
'''


def _scenario(processes: Processes, folder: pathlib.Path, name: str) -> Running:
    return processes.start("-c", SCENARIOS, str(folder), name)


def _said(running: Running, seconds: float = 30) -> dict:
    return json.loads(running.line_with("{", seconds))


def test_task_that_dies_at_start_up(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _scenario(processes, tmp_path, "dies_at_start_up")
    error = _said(running)["error"]

    lines = error.splitlines()
    log = tmp_path / "worker-0.log"
    assert lines[0] == (f"worker 0 ended with exit code 1 at start-up; the end of its log {log}:")
    assert lines[-1].strip() == "RuntimeError: the battery is flat"
    assert "line 0" not in error  # the end, not all of it
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_spawned_task_that_dies_at_start_up(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _scenario(processes, tmp_path, "spawned_dies_at_start_up")
    error = _said(running, 90)["error"]

    assert error.startswith("worker 0 ended with exit code 2 at start-up; the end of its log")
    assert "error: Unknown command line flag 'wings'" in error
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_dead_parameter_server(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _scenario(processes, tmp_path, "dead_ps")
    said = _said(running)

    assert said["before"] == []  # nothing is said of tasks that live
    assert said["error"].startswith("parameter server 0 was killed by SIGKILL during the run;")
    assert str(tmp_path / "ps-0.log") in said["error"]
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_dead_worker_is_replaced(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _scenario(processes, tmp_path, "dead_worker")
    said = _said(running, 90)

    assert said["lines"] == ["worker 0 was killed by SIGKILL; started again (1 of 5)"]
    assert said["again"] == []
    assert said["replaced"] is True
    assert said["alive"] == [1, 1]
    assert "worker 0 serves at" in (tmp_path / "worker-0.log").read_text()
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_worker_that_keeps_dying(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _scenario(processes, tmp_path, "worker_that_keeps_dying")
    said = _said(running, 60)

    assert said["lines"] == [
        "worker 0 was killed by SIGKILL; started again (1 of 5)",
        *(f"worker 0 ended with exit code 2; started again ({i} of 5)" for i in (2, 3, 4, 5)),
    ]
    assert said["error"].startswith("worker 0 ended with exit code 2 during the run;")
    assert "Unknown command line flag 'wings'" in said["error"]
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_stop_leaves_nothing_that_ignores_sigterm(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = _scenario(processes, tmp_path, "stubborn")

    assert _said(running)["seconds"] < 5
    # The scenario itself still lives, so it is stop() that ended them, and not its end.
    real.until(lambda: processes.alive() == {running.pid}, 2, "the tasks to be gone")


def test_tasks_end_with_a_parent_that_is_killed(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = _scenario(processes, tmp_path, "waits")
    assert _said(running)["serves"] is True
    # The scenario, its two tasks, and what one of them started.
    real.until(lambda: len(processes.alive()) == 4, 10, "the tasks' own processes")

    os.kill(running.pid, signal.SIGKILL)

    processes.all_gone(5)


# Whole runs.


def _coordinator(processes: Processes, folder: pathlib.Path, *flags: str) -> Running:
    return processes.start("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *flags)


def _checkpoints(folder: pathlib.Path) -> list[pathlib.Path]:
    return list((folder / "checkpoints").glob("updates-*.npz"))


def _env_steps(line: str) -> int:
    found = re.search(r"env_steps +([\d,]+)", line)
    assert found, line
    return int(found[1].replace(",", ""))


def test_terminal_has_only_our_own_lines(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _coordinator(
        processes, tmp_path, "--total_env_steps=3000", "--num_workers=1", "--eval_episodes=2"
    )

    assert running.ended(120) == 0, running.text
    assert running.lines[0].startswith("CartPole-v1: observations 4, 2 actions; ")
    assert running.lines[-1] == f"everything is in {tmp_path}"
    assert "Finished" in running.text
    text = running.text.lower().replace(str(tmp_path).lower(), "")
    for noise in ("tensorflow", "0000 00:00", "warning", "cuda", "traceback", "absl", "xla"):
        assert noise not in text, running.text
    # It is not that there was nothing to keep away.
    assert (tmp_path / "logs" / "coordinator.log").stat().st_size > 0


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
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
    running.line_with("updates/s", 120)
    # The coordinator, a parameter server, a worker and its two environments.
    assert len(processes.alive()) >= 5

    os.kill(running.pid, signal.SIGKILL)

    processes.all_gone(10)
    assert running.ended() == -signal.SIGKILL


@pytest.mark.slow
def test_interrupted_run_is_resumed(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _coordinator(processes, tmp_path, *ENDLESS, "--eval_episodes=2")
    running.line_with("updates/s", 120)

    os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C does

    assert running.ended(60) == 128 + signal.SIGINT, running.text
    assert "Stopped" in running.text
    processes.all_gone(1)
    assert len(_checkpoints(tmp_path)) == 1
    first = json.loads((tmp_path / "summary.json").read_text())
    assert first["reason"] == "stopped"
    assert first["env_steps"] > 0

    # --total_env_steps overrides the run's own; --target_return=inf is still the run's.
    total = first["env_steps"] + 1000
    resumed = _coordinator(processes, tmp_path, "--resume", f"--total_env_steps={total}")

    assert resumed.ended(120) == 0, resumed.text
    assert any(
        f"resumed at {first['env_steps']:,} env steps, {first['updates']:,} updates" in line
        for line in resumed.lines[:4]
    ), resumed.text
    second = json.loads((tmp_path / "summary.json").read_text())
    assert second["reason"] == "finished"
    assert second["env_steps"] >= total
    assert second["updates"] > first["updates"]
    assert second["version"] > first["version"]
    assert second["training_seconds"] > first["training_seconds"]


def test_interrupt_at_start_up_leaves_no_process(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = _coordinator(processes, tmp_path, *ENDLESS)
    real.until(lambda: processes.writing_to(tmp_path / "logs" / "worker-1.log"), 60, "the worker")

    os.killpg(running.pid, signal.SIGINT)

    # Leaving with 130 and dying of SIGINT are the same to a shell.
    assert running.ended(60) in (128 + signal.SIGINT, -signal.SIGINT), running.text
    processes.all_gone(1)
    assert "Traceback" not in running.text


@pytest.mark.slow
def test_killed_worker_is_replaced_and_the_run_finishes(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    total = 150_000  # takes seconds more than noticing a dead worker
    running = _coordinator(
        processes,
        tmp_path,
        "--target_return=inf",
        f"--total_env_steps={total}",
        "--log_interval=0.5",
        "--num_workers=2",
        "--eval_episodes=2",
    )
    reached = _env_steps(running.line_with("updates/s", 120))
    assert reached < total / 2
    log = tmp_path / "logs" / "worker-0.log"
    worker = processes.writing_to(log)
    assert worker

    os.kill(worker, signal.SIGKILL)

    said = running.line_with("started again", 30)
    assert said == "worker 0 was killed by SIGKILL; started again (1 of 5)"
    replacement = real.until(lambda: processes.writing_to(log), 30, "the new worker")
    assert replacement != worker
    assert running.ended(180) == 0, running.text
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["reason"] == "finished"
    assert summary["env_steps"] >= total
    processes.all_gone(1)


def test_killed_parameter_server_ends_the_run(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _coordinator(processes, tmp_path, *ENDLESS, "--checkpoint_period=0.5")
    running.line_with("updates/s", 120)
    real.until(lambda: _checkpoints(tmp_path), 30, "a checkpoint")
    server = processes.writing_to(tmp_path / "logs" / "ps-0.log")
    assert server

    os.kill(server, signal.SIGKILL)

    assert running.ended(30) == 1, running.text
    [error] = [line for line in running.lines if line.startswith("error: ")]
    assert "parameter server" in error
    assert [line for line in running.lines if "--resume" in line] == [
        f"--resume --run_dir={tmp_path} goes on from the last checkpoint"
    ]
    assert "Traceback" not in running.text
    processes.all_gone(1)
