"""Real processes: how tasks stop, are watched and replaced."""

import json
import os
import pathlib
import signal
import sys
import time

import pytest
from support import processes as real
from support.processes import Processes, Running

from ps_dqn.cluster import ports, server
from ps_dqn.cluster.spec import Task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


# One task.


@pytest.mark.parametrize(
    ("module", "task", "job_index", "code"),
    [
        ("ps_dqn.parameter_server", Task("ps", 0), "", 0),
        pytest.param("ps_dqn.worker", Task("worker", 0), "", 0, marks=pytest.mark.slow),
        # A pod of a Kubernetes Job that leaves with 0 is done, and not replaced.
        ("ps_dqn.worker", Task("worker", 0), "0", 128 + signal.SIGTERM),
    ],
    ids=["parameter_server", "worker", "worker of a job"],
)
def test_task_stops_at_sigterm_and_ignores_sigint(
    processes: Processes, module: str, task: Task, job_index: str, code: int
) -> None:
    spec = ports.on_this_machine(1, 1)
    address = spec.addresses(task.job)[0]
    environment = {"TF_CONFIG": spec.tf_config(task), "JOB_COMPLETION_INDEX": job_index}
    running = processes.start("-m", module, **environment)
    assert running.line_with("serves at") == f"{task} serves at {address}"
    real.until(lambda: real.accepts(address) or running.process.poll(), 180, "the server")

    # Both are pending at once, or SIGINT comes first; Python hears of SIGINT, the lower number,
    # first in either case. Were it not ignored, the exit code could not be 0.
    os.killpg(running.pid, signal.SIGINT)
    started = time.monotonic()
    os.killpg(running.pid, signal.SIGTERM)

    assert running.ended() == code, running.text
    # Within a second on a machine that does nothing else, and not only once it gives clean-up up.
    assert time.monotonic() - started < server.STOP_SECONDS
    assert "Traceback" not in running.text


# The cluster of this machine, with tasks that take no time to start. Forking is sound only where
# TensorFlow has no threads, which pytest's own process cannot promise: a small program does it.

SCENARIOS = r'''
import json, os, pathlib, signal, socket, subprocess, sys, time
from ps_dqn.cluster import control, local, ports
from ps_dqn.cluster.spec import Task

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
PS, WORKER = Task("ps", 0), Task("worker", 0)
spec = ports.on_this_machine(1, 1)


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
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if lines := cluster.check("worker"):
            return lines
        time.sleep(0.01)
    return ["nothing"]


def dies_at_start_up():
    try:
        with local.running(cluster_of(dies)):
            say(error="none")
    except control.TaskDiedError as error:
        say(error=str(error))


def spawned_dies_at_start_up():
    try:
        with local.running(cluster_of(None, arguments=("--wings=2",), start_method="spawn")):
            say(error="none")
    except control.TaskDiedError as error:
        say(error=str(error))


def dead_ps():
    with local.running(cluster_of(listens)) as cluster:
        before = cluster.ended("ps"), cluster.epitaphs()
        old = cluster.pid(PS)
        cluster.kill(PS)
        while not cluster.ended("ps"):
            time.sleep(0.01)
        epitaphs = cluster.epitaphs()
        lines = cluster.check("worker"), cluster.check("ps")
        cluster.wait_until_serving()
        say(before=before, epitaphs=epitaphs, lines=lines, replaced=cluster.pid(PS) != old)


def dead_worker():
    with local.running(cluster_of(listens)) as cluster:
        old = cluster.pid(WORKER)
        os.kill(old, signal.SIGKILL)
        lines = checked(cluster)
        cluster.wait_until_serving()
        say(
            lines=lines,
            again=cluster.check("worker"),
            replaced=cluster.pid(WORKER) != old,
            ended=[*cluster.ended("worker"), *cluster.ended("ps")],
        )


def worker_that_does_its_work():
    with local.running(cluster_of(listens, arguments=("--wings=2",))) as cluster:
        os.kill(cluster.pid(WORKER), signal.SIGKILL)
        lines = []
        for _ in range(8):
            lines += checked(cluster)
            cluster.are_well(WORKER)
    say(lines=lines)


def worker_that_keeps_dying():
    lines = []
    with local.running(cluster_of(listens, arguments=("--wings=2",))) as cluster:
        os.kill(cluster.pid(WORKER), signal.SIGKILL)
        try:
            while not lines or "nothing" not in lines:
                lines += checked(cluster)
            say(error="none", lines=lines)
        except control.TaskDiedError as error:
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


def _said(running: Running) -> dict:
    return json.loads(running.line_with("{", 300))


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
    error = _said(running)["error"]

    assert error.startswith("worker 0 ended with exit code 2 at start-up; the end of its log")
    assert "error: --wings=2: there is no such flag" in error
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_parameter_server_that_is_killed_is_started_again(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = _scenario(processes, tmp_path, "dead_ps")
    said = _said(running)

    assert said["before"] == [[], ""]  # nothing is said of tasks that live
    assert said["epitaphs"].startswith("parameter server 0 was killed by SIGKILL during the run;")
    assert str(tmp_path / "ps-0.log") in said["epitaphs"]
    assert said["lines"] == [
        [],
        ["parameter server 0 was killed by SIGKILL; started again (1 of 5)"],
    ]
    assert said["replaced"] is True
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_dead_worker_is_replaced(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _scenario(processes, tmp_path, "dead_worker")
    said = _said(running)

    assert said["lines"] == ["worker 0 was killed by SIGKILL; started again (1 of 5)"]
    assert said["again"] == []
    assert said["replaced"] is True
    assert said["ended"] == []
    assert "worker 0 serves at" in (tmp_path / "worker-0.log").read_text()
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_worker_that_keeps_dying(processes: Processes, tmp_path: pathlib.Path) -> None:
    running = _scenario(processes, tmp_path, "worker_that_keeps_dying")
    said = _said(running)

    assert said["lines"] == [
        "worker 0 was killed by SIGKILL; started again (1 of 5)",
        *(f"worker 0 ended with exit code 2; started again ({i} of 5)" for i in (2, 3, 4, 5)),
    ]
    assert said["error"].startswith("worker 0 ended with exit code 2 during the run;")
    assert "--wings=2: there is no such flag" in said["error"]
    assert running.ended() == 0, running.text
    processes.all_gone(1)


def test_worker_that_does_its_work_may_be_started_again_without_end(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    said = _said(_scenario(processes, tmp_path, "worker_that_does_its_work"))
    assert all(line.endswith("started again (1 of 5)") for line in said["lines"])
    assert len(said["lines"]) == 8


def test_stop_leaves_nothing_that_ignores_sigterm(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = _scenario(processes, tmp_path, "stubborn")

    # A second and a half, and whatever a busy machine takes to end two processes.
    assert _said(running)["seconds"] < 30
    # The scenario itself still lives, so it is stop() that ended them, and not its end.
    real.until(lambda: processes.alive() == {running.pid}, 60, "the tasks to be gone")


def test_tasks_end_with_a_parent_that_is_killed(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = _scenario(processes, tmp_path, "waits")
    assert _said(running)["serves"] is True
    # The scenario, its two tasks, and what one of them started.
    real.until(lambda: len(processes.alive()) == 4, 60, "the tasks' own processes")

    os.kill(running.pid, signal.SIGKILL)

    processes.all_gone(60)
